package queue

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// summaryOf returns the summary of a Queue's status. Before the call, the amounts in the status and
// both conditions must be up to date.
func summaryOf(q *v1alpha1.Queue, ready, quota metav1.Condition) *v1alpha1.QueueSummary {
	out := &v1alpha1.QueueSummary{Ready: string(ready.Status)}
	switch {
	case ready.Status != metav1.ConditionTrue:
		out.Ready += " (" + ready.Reason + ")"
	case quota.Status != metav1.ConditionTrue:
		out.Ready += " (" + quota.Reason + ")"
	}
	var bounded []corev1.ResourceName
	for _, list := range []corev1.ResourceList{q.Spec.Quota, q.Spec.Limit} {
		for name := range list {
			if !slices.Contains(bounded, name) {
				bounded = append(bounded, name)
			}
		}
	}
	slices.Sort(bounded)
	out.Used, out.Share, out.Quota = words(q.Status.Allocated, bounded), words(q.Status.FairShare, bounded), quotaInWords(q, bounded)
	return out
}

// words formats the amounts of the given resources. It leaves out resources that the list does not
// have.
func words(list corev1.ResourceList, of []corev1.ResourceName) string {
	var parts []string
	for _, name := range of {
		if amount, ok := list[name]; ok {
			parts = append(parts, Human(name, amount.AsApproximateFloat64())+" "+shortName(name))
		}
	}
	return listed(parts)
}

// mostSummary is the maximum number of characters of a list in a QueueSummary. The
// CustomResourceDefinition permits 4096. The difference is for the number of parts that do not fit.
const mostSummary = 4000

// listed joins parts with commas. If not all parts fit into a QueueSummary, it ends with the number
// of the other parts.
func listed(parts []string) string {
	var out strings.Builder
	for i, part := range parts {
		if out.Len()+len(part)+len(", ") > mostSummary {
			return fmt.Sprintf("%s and %d more", out.String(), len(parts)-i)
		}
		if i > 0 {
			out.WriteString(", ")
		}
		out.WriteString(part)
	}
	return out.String()
}

// quotaInWords lists the effective quota of a Queue. If the quota in the spec is higher, it shows
// both.
func quotaInWords(q *v1alpha1.Queue, of []corev1.ResourceName) string {
	var parts []string
	for _, name := range of {
		counts, asked := q.Status.Quota[name], q.Spec.Quota[name]
		if counts.IsZero() && asked.IsZero() {
			continue
		}
		part := Human(name, counts.AsApproximateFloat64())
		if counts.Cmp(asked) < 0 {
			part += fmt.Sprintf(" (of %s)", Human(name, asked.AsApproximateFloat64()))
		}
		parts = append(parts, part+" "+shortName(name))
	}
	return cmp.Or(listed(parts), "0")
}

// shortName returns a resource's name without its domain.
func shortName(name corev1.ResourceName) string {
	return string(name)[strings.LastIndexByte(string(name), '/')+1:]
}

// Human formats an amount of a resource with at most one decimal. Bytes get the largest binary
// suffix with a value of at least 1.
func Human(name corev1.ResourceName, amount float64) string {
	suffix := ""
	if name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
		for _, next := range []string{"Ki", "Mi", "Gi", "Ti", "Pi"} {
			if amount < 1024 {
				break
			}
			amount, suffix = amount/1024, next
		}
	}
	return strings.TrimSuffix(strconv.FormatFloat(amount, 'f', 1, 64), ".0") + suffix
}
