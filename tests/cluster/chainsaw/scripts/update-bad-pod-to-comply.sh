#!/bin/sh
# Mends the Pod that broke the rule, which is accepted; then breaks it again, which is not.
set -eu
pod=$(kubectl get pods -n default -o name | grep badpod | head -1)
kubectl label -n default "$pod" foo=bar --overwrite
out=$(kubectl label -n default "$pod" foo=bad1 --overwrite 2>&1) && exit 1
echo "$out" | grep -q 'validation error: rule check-labels'
