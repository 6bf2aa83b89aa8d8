#!/bin/sh
# Evicts the Pod by the API: refused, with the policy's message.
set -u
out=$(kubectl create --raw /api/v1/namespaces/test-validate/pods/nginx/eviction -f eviction.json 2>&1) && exit 1
echo "$out" | grep -q "Evicting Pods protected with the label 'evict=false' is forbidden"
