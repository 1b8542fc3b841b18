package app

import (
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/grouping"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// kindJob is the kind of Jobs. It needs no grouping rule: every snapshot has the Jobs, and each pod
// names its Job as the owner.
const kindJob = "Job"

// workArgument describes the argument that names work in the help.
const workArgument = "POD|KIND/NAME"

// workKind is a kind of objects that a question can name.
type workKind struct {
	schema.GroupVersionKind
	resource, short string
	// rare is true if most clusters have no objects of the kind.
	rare bool
	// rule is the grouping rule that finds the pods of an object; nil if no rule is needed.
	rule *grouping.Rule
}

// workKinds returns the kinds that a question can name. Pod, Job, PodGroup and CompositePodGroup
// come first, then the kinds with a built-in grouping rule.
func workKinds() []workKind {
	out := []workKind{
		{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Pod"), resource: "pods", short: "po"},
		{GroupVersionKind: batchv1.SchemeGroupVersion.WithKind(kindJob), resource: "jobs"},
		{GroupVersionKind: v1alpha1.SchemeGroupVersion.WithKind(kindPodGroup), resource: "podgroups", short: "pg"},
		{GroupVersionKind: v1alpha1.SchemeGroupVersion.WithKind(kindComposite), resource: "compositepodgroups", short: "cpg", rare: true},
	}
	// LeaderWorkerSets and SparkApplications have short names in their CustomResourceDefinitions.
	short := map[string]string{"LeaderWorkerSet": "lws", "SparkApplication": "sparkapp"}
	rules := grouping.BuiltIn()
	delete(rules, kindJob)
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		rule := rules[name]
		out = append(out, workKind{GroupVersionKind: rule.Kind, resource: rule.Resource, short: short[name], rare: true, rule: rule})
	}
	return out
}

// kindNamed returns the kind that a word names. The word can have any form that kubectl accepts.
// Examples are po, pods, lws and podgroups.reprieve.dev. If the word names no kind of workKinds,
// kindNamed returns false.
func kindNamed(word string) (workKind, bool) {
	resource, rest, _ := strings.Cut(strings.ToLower(word), ".")
	for _, kind := range workKinds() {
		if resource == kind.singular() || resource == kind.resource || resource != "" && resource == kind.short {
			return kind, rest == "" || rest == kind.Group || rest == kind.Version+"."+kind.Group
		}
	}
	return workKind{}, false
}

func (k *workKind) singular() string { return strings.ToLower(k.Kind) }

// stored returns the key of the kind in an inventory.
func (k *workKind) stored() string {
	of := k.GroupVersion().WithResource(k.resource)
	if k.rule != nil {
		return inventory.RootName(of)
	}
	return inventory.NameOf(of)
}

// kindsInWords returns the names of the kinds as text for a message.
func kindsInWords() string {
	kinds := workKinds()
	words := make([]string, len(kinds))
	for i := range kinds {
		words[i] = kinds[i].singular()
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
