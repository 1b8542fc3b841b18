package gang

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// KeyOf returns the key of a group in the records of internal/engine.
func KeyOf(name types.NamespacedName) workload.Key {
	return workload.Key{Gang: true, Namespace: name.Namespace, Name: name.Name}
}

// NameOf returns the namespace and the name of a group from its engine key.
func NameOf(key workload.Key) types.NamespacedName {
	return types.NamespacedName{Namespace: key.Namespace, Name: key.Name}
}
