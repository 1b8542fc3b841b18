package app

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// Kinds of groups.
const (
	kindPodGroup  = "PodGroup"
	kindComposite = "CompositePodGroup"
)

// unitName returns the name of a pod or a group with its kind, such as "pod default/web".
func unitName(namespace, name string, group bool) string {
	if group {
		return groupName(types.NamespacedName{Namespace: namespace, Name: name})
	}
	return "pod " + namespace + "/" + name
}

// groupName returns the name of a group with its kind. For a tree, it is the name of the
// CompositePodGroup.
func groupName(key types.NamespacedName) string {
	if composite, ok := gang.CompositeOf(key); ok {
		return "compositepodgroup " + composite.String()
	}
	return "podgroup " + key.String()
}

// nameTold returns the name of a unit in the format of unitName. kind and name come from a message.
func nameTold(kind, name string) string {
	namespace, rest, found := strings.Cut(name, "/")
	if !found || kind != kindPodGroup {
		return strings.ToLower(kind) + " " + name
	}
	return unitName(namespace, rest, true)
}
