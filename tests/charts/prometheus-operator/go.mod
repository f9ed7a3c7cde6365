// Only for the definitions that its release comes with: nothing of it is built.
module corelane/tests/charts/prometheus-operator

go 1.26.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
