#!/bin/sh
# Changes the Pod that broke the rule before it came: let be, unless the policy says that it is not.
set -u
pod=$(kubectl get pods -n default -o name | grep badpod | head -1)
out=$(kubectl label -n default "$pod" foo=bad1 --overwrite 2>&1)
code=$?
if grep -q 'allowExistingViolations: false' policy.yaml; then
  [ "$code" -ne 0 ] && echo "$out" | grep -q 'validation error: rule check-labels'
else
  [ "$code" -eq 0 ]
fi
