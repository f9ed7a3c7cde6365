module corelane/hack/cluster/pause

go 1.24.0
