package grouping

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// TestNamesOfParts checks that the name of a group for a replica and a role is valid, and that
// different groups of an object have different names. A rule of an operator can have replicas and
// roles.
func TestNamesOfParts(t *testing.T) {
	t.Parallel()
	long := func(of string, n int) string {
		out := ""
		for len(out) < n {
			out += of
		}
		return out[:n]
	}
	o := &object{objectName: objectName{name: long("o", 253)}, uid: "uid"}
	name := groupName(o, suffix{unit: long("u", 63), role: long("r", 63)})
	if flaws := validation.IsDNS1123Subdomain(name); len(flaws) > 0 {
		t.Errorf("the name has %d characters: %v", len(name), flaws)
	}
	if a, b := groupName(o, suffix{unit: "a-b", role: "c"}), groupName(o, suffix{unit: "a", role: "b-c"}); a == b {
		t.Errorf("replica a-b, role c and replica a, role b-c have one name: %s", a)
	}
	if a, b := groupName(o, suffix{role: "others"}), groupName(o, suffix{role: AnyName}); a == b {
		t.Errorf("a role named others and the role of all other pods have one name: %s", a)
	}
}
