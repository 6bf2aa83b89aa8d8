#!/bin/sh
# A resource of the node that a device would announce.
kubectl patch node kind-control-plane --subresource status --type json \
  -p '[{"op": "add", "path": "/status/capacity/example.com~1dongle", "value": "1"}]'
