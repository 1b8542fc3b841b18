package workload

import "strings"

// TreePrefix begins the name of a CompositePodGroup among the names of groups. No object has a
// slash in its name, so a PodGroup never has such a name.
const TreePrefix = "compositepodgroup/"

// GroupKind returns the kind and the name of the object of a group, from its name among groups.
func GroupKind(group string) (kind, object string) {
	if name, ok := strings.CutPrefix(group, TreePrefix); ok {
		return "CompositePodGroup", name
	}
	return "PodGroup", group
}
