package app

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// The kinds in the names of units.
const (
	kindPodGroup  = "PodGroup"
	kindComposite = "CompositePodGroup"
)

// unitName returns the name of a pod or a group for people, with its kind.
func unitName(namespace, name string, group bool) string {
	if group {
		return groupName(types.NamespacedName{Namespace: namespace, Name: name})
	}
	return "pod " + namespace + "/" + name
}

// groupName returns the name of the group with a key. A tree is named by its CompositePodGroup.
func groupName(key types.NamespacedName) string {
	if composite, ok := gang.CompositeOf(key); ok {
		return "compositepodgroup " + composite.String()
	}
	return "podgroup " + key.String()
}

// nameTold returns the name of a unit in a message, with the kind and the namespaced name that the
// message has.
func nameTold(kind, name string) string {
	namespace, rest, found := strings.Cut(name, "/")
	if !found || kind != kindPodGroup {
		return strings.ToLower(kind) + " " + name
	}
	return unitName(namespace, rest, true)
}
