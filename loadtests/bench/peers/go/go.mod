module corelane/loadtests/bench/peers/go

go 1.25.0
