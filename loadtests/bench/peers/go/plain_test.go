package main

import "testing"

func TestHalvesAreExact(t *testing.T) {
	for n, want := range map[string]string{
		"4":                              "2",
		"5":                              "2.5",
		"0":                              "0",
		"-0":                             "0",
		"-3":                             "-1.5",
		"0.10":                           "0.05",
		"007":                            "3.5",
		"10":                             "5",
		"123456789012345678901234567891": "61728394506172839450617283945.5",
	} {
		if half, ok := halve(n); !ok || half != want {
			t.Errorf("half of %s is %s, not %s", n, want, half)
		}
	}
	for _, n := range []string{"", "-", ".", "1.", ".5", "+1", "1e3", "0x10", "--1", "four", "٣"} {
		if half, ok := halve(n); ok {
			t.Errorf("%s has no half, not %s", n, half)
		}
	}
}
