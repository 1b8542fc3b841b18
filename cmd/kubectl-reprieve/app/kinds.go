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

// kindJob is the kind that needs no rule: every snapshot has Jobs, and pods name their Job.
const kindJob = "Job"

// workArgument is the argument for work in the help.
const workArgument = "POD|KIND/NAME"

// workKind is a kind of objects that a question may name.
type workKind struct {
	schema.GroupVersionKind
	resource, short string
	// rare is true for a kind that most clusters have no objects of.
	rare bool
	// rule finds the pods of an object; nil for kinds that need no rule.
	rule *grouping.Rule
}

// workKinds returns Pod, Job and the kinds of groups, then the other kinds that PodGroups are
// derived for by built-in rules.
func workKinds() []workKind {
	out := []workKind{
		{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Pod"), resource: "pods", short: "po"},
		{GroupVersionKind: batchv1.SchemeGroupVersion.WithKind(kindJob), resource: "jobs"},
		{GroupVersionKind: v1alpha1.SchemeGroupVersion.WithKind(kindPodGroup), resource: "podgroups", short: "pg"},
		{GroupVersionKind: v1alpha1.SchemeGroupVersion.WithKind(kindComposite), resource: "compositepodgroups", short: "cpg", rare: true},
	}
	// The definitions of these two kinds have short names.
	short := map[string]string{"LeaderWorkerSet": "lws", "SparkApplication": "sparkapp"}
	rules := grouping.BuiltIn()
	delete(rules, kindJob)
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		rule := rules[name]
		out = append(out, workKind{GroupVersionKind: rule.Kind, resource: rule.Resource, short: short[name], rare: true, rule: rule})
	}
	return out
}

// kindNamed returns the kind for a word, in any form that kubectl accepts: po, pods, job,
// jobs.batch, lws, podgroups.reprieve.dev, podgroups.v1alpha1.reprieve.dev and the like. It returns
// false if a question may not name the kind.
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

// stored returns the name of the kind in an inventory.
func (k *workKind) stored() string {
	of := k.GroupVersion().WithResource(k.resource)
	if k.rule != nil {
		return inventory.RootName(of)
	}
	return inventory.NameOf(of)
}

// kindsInWords lists the kinds for people.
func kindsInWords() string {
	kinds := workKinds()
	words := make([]string, len(kinds))
	for i := range kinds {
		words[i] = kinds[i].singular()
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
