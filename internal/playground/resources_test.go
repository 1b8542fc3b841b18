package playground

import (
	"strings"
	"testing"
)

func TestParseNodeResources(t *testing.T) {
	for _, test := range []struct {
		in   string
		want map[string]string
	}{
		{"", map[string]string{}},
		{"cpu=64,memory=512Gi,nvidia.com/gpu=8", map[string]string{"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8"}},
		{" cpu = 500m , pods=20", map[string]string{"cpu": "500m", "pods": "20"}},
		{"hugepages-2Mi=1Gi,ephemeral-storage=0", map[string]string{"hugepages-2Mi": "1Gi", "ephemeral-storage": "0"}},
	} {
		got, err := ParseNodeResources(test.in)
		if err != nil {
			t.Errorf("%q: %v", test.in, err)
			continue
		}
		if len(got) != len(test.want) {
			t.Errorf("%q gives %v, want %v", test.in, got, test.want)
		}
		for name, quantity := range got {
			if quantity.String() != test.want[string(name)] {
				t.Errorf("%q gives %s=%s, want %s", test.in, name, quantity.String(), test.want[string(name)])
			}
		}
	}
}

func TestParseNodeResourcesNamesTheBadItem(t *testing.T) {
	for in, want := range map[string]string{
		"cpu=64,memory":             `"memory": want NAME=QUANTITY`,
		"cpu=64,memory=lots":        `"memory=lots": "lots" is not a quantity`,
		"cpu=64,cpu=32":             `"cpu=32": cpu is given twice`,
		"cpu=-1":                    `"cpu=-1": the quantity is negative`,
		"nvidia.com/gpu=1500m":      `"nvidia.com/gpu=1500m": the quantity must be a whole number`,
		"gpu=8":                     `"gpu=8": "gpu" is not a resource name`,
		"cpu=1,,memory=1Gi":         `"": want NAME=QUANTITY`,
		"=3":                        `"=3": "" is not a resource name`,
		"example.com/a b=1":         `"example.com/a b" is not a resource name`,
		"cpu=1,nvidia.com/gpu=8=16": `"8=16" is not a quantity`,
	} {
		_, err := ParseNodeResources(in)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives error %v, want one with %s", in, err, want)
		}
	}
}
