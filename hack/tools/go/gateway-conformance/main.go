// The conformance tests of Gateway API as a program, with the flags of `go test` and their own.
package main

import (
	"flag"
	"regexp"
	"testing"

	"sigs.k8s.io/gateway-api/conformance"
)

func main() {
	testing.Init()
	flag.Parse()
	tests := []testing.InternalTest{{Name: "Conformance", F: conformance.RunConformance}}
	testing.Main(regexp.MatchString, tests, nil, nil)
}
