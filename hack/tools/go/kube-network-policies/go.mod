module corelane/hack/tools/kube-network-policies

go 1.25.0
