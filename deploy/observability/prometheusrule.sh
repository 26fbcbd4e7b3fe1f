#!/usr/bin/env bash
# Writes the alerts as the object that the Prometheus operator takes: deploy/kustomize/components/monitoring. Run it
# after a change of the alerts; a test compares the two.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
{
  cat <<'YAML'
# Made by deploy/observability/prometheusrule.sh of deploy/observability/alerts/diloco.rules.yaml.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: diloco
  labels:
    app.kubernetes.io/name: diloco
    app.kubernetes.io/instance: diloco
    app.kubernetes.io/component: monitoring
spec:
YAML
  sed -e 's/^\(..*\)/  \1/' alerts/diloco.rules.yaml
} >../kustomize/components/monitoring/diloco-prometheusrule.yaml
