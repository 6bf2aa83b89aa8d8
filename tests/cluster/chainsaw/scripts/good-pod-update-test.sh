#!/bin/sh
# Changes the Pod that keeps to the rule so that it breaks it: refused, with the rule's message.
set -u
pod=$(kubectl get pods -n default -o name | grep goodpod | head -1)
out=$(kubectl label -n default "$pod" foo=bad1 --overwrite 2>&1) && exit 1
echo "$out" | grep -q 'validation error: rule check-labels'
