#!/usr/bin/env bash
# Compare predictions with a real vLLM and a real SGLang on the CPU, request by request.
# VLLM_VENV: a virtual environment with vLLM (default: one in the cache folder, installed on first use)
# SGLANG_VENV: the same with SGLang, which borrows from the one with vLLM
# AIPERF_VENV, GUIDELLM_VENV: environments with these load generators (default: in the cache folder, as above)
# FOREWORD_TINY_MODEL: the model it serves (default: one in the cache folder, made on first use)
# FOREWORD_ACCURACY_TABLE: a file for the table of what was compared, in Markdown
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
VLLM_VENV=${VLLM_VENV:-$(bash scripts/outside.sh vllm)}
SGLANG_VENV=${SGLANG_VENV:-$(VLLM_VENV=$VLLM_VENV bash scripts/outside.sh sglang)}
AIPERF_VENV=${AIPERF_VENV:-$(bash scripts/outside.sh aiperf)}
GUIDELLM_VENV=${GUIDELLM_VENV:-$(bash scripts/outside.sh guidellm)}
FOREWORD_TINY_MODEL=${FOREWORD_TINY_MODEL:-$(bash scripts/outside.sh model)}
export VLLM_VENV SGLANG_VENV AIPERF_VENV GUIDELLM_VENV FOREWORD_TINY_MODEL FOREWORD_REQUIRE=real,sglang
exec .venv/bin/python -m pytest tests/real -n 0 -rA "$@"
