"""Every read and write: configs, data sets, run folders, tokenizers and corpora."""
