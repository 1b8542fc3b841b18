package workload

import "strings"

// TreePrefix is the prefix that distinguishes the key of a CompositePodGroup from the key of a
// PodGroup. Names of objects contain no slash, so no PodGroup has the prefix in its name.
const TreePrefix = "compositepodgroup/"

// GroupKind returns the kind and the name of the object behind a group's name: a CompositePodGroup
// if the name has TreePrefix, otherwise a PodGroup.
func GroupKind(group string) (kind, object string) {
	if name, ok := strings.CutPrefix(group, TreePrefix); ok {
		return "CompositePodGroup", name
	}
	return "PodGroup", group
}
