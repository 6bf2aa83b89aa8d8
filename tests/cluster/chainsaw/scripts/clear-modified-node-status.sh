#!/bin/sh
# What the case left on the node.
set -e
kubectl patch node kind-control-plane --subresource status --type json \
  -p '[{"op": "remove", "path": "/status/capacity/example.com~1dongle"}]'
kubectl annotate node kind-control-plane policies.kyverno.io/last-applied-patches-
