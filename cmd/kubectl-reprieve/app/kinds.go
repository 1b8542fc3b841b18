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

// kindJob is the kind that is known without a rule: every snapshot has Jobs, and pods name theirs.
const kindJob = "Job"

// workArgument is how help names work that is asked about.
const workArgument = "POD|KIND/NAME"

// workKind is a kind of objects that may be asked about.
type workKind struct {
	schema.GroupVersionKind
	resource, short string
	// rule says which pods its objects have; nil where that is known without one.
	rule *grouping.Rule
}

// workKinds are Pod, Job and PodGroup, then all other kinds that groups are made for by rules that
// need not be written.
func workKinds() []workKind {
	out := []workKind{
		{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Pod"), resource: "pods", short: "po"},
		{GroupVersionKind: batchv1.SchemeGroupVersion.WithKind(kindJob), resource: "jobs"},
		{GroupVersionKind: v1alpha1.SchemeGroupVersion.WithKind("PodGroup"), resource: "podgroups", short: "pg"},
	}
	// Their definitions have these, and the others none.
	short := map[string]string{"LeaderWorkerSet": "lws", "SparkApplication": "sparkapp"}
	rules := grouping.BuiltIn()
	delete(rules, kindJob)
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		rule := rules[name]
		out = append(out, workKind{GroupVersionKind: rule.Kind, resource: rule.Resource, short: short[name], rule: rule})
	}
	return out
}

// kindNamed is the kind that a word means in any of the forms that kubectl takes: po, pods, job,
// jobs.batch, lws, podgroups.reprieve.dev, podgroups.v1alpha1.reprieve.dev and the like. It reports
// false for one that may not be asked about.
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

// stored is how an inventory calls its objects.
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
