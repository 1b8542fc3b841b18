package grouping

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// plan is what an object and its namespace come to: whether its pods are grouped, and how.
type plan struct {
	choice  Choice
	reading Reading
	// flaw says why no group can be made though one is asked for; "" for nothing.
	flaw string
	// perRole has a gang for each role.
	perRole bool
	// asks is true where pods have named the object to be a gang.
	asks bool
}

// newPlan plans for an object of a namespace, from which it inherits what it does not say itself. The function served reports whether
// a scheduler is one that groups pods of its kind.
func newPlan(rule *Rule, reading Reading, own, inherited Choice, namespace string, served func(scheduler string) bool) *plan {
	reading.Roles = without(reading.Roles, served)
	p := &plan{choice: own.or(inherited), reading: reading, asks: rule.Asks}
	// What has no roles is one gang: a namespace may ask for this on behalf of others.
	p.perRole = rule.RoleLabel != "" && (p.choice.Per == v1alpha1.GangPerRole || p.choice.Per == "" && reading.InOrder)
	switch {
	case p.choice.flaw() != "":
		p.flaw = p.choice.flaw()
	case p.choice.allowed(namespace) != "":
		p.flaw = p.choice.allowed(namespace)
	case reading.Flaw != "":
		p.flaw = reading.Flaw
	case reading.InOrder && !p.perRole:
		p.flaw = fmt.Sprintf("its roles start one after the other, so no gang can span them; set the annotation %s to %q",
			v1alpha1.AnnotationGangPer, v1alpha1.GangPerRole)
	default:
		if at := slices.IndexFunc(p.reading.Roles, func(role Size) bool { return role.Led && !role.Alone }); at >= 0 {
			p.flaw = fmt.Sprintf("of its role %s, the first pod of each Job has to have a node before the others are made (exclusive placement), so no gang can have them; "+
				"set the annotation %s to \"false\"", p.reading.Roles[at].Name, v1alpha1.AnnotationGang)
		}
	}
	return p
}

// without are roles of which those are no part of a gang that are for another scheduler: a driver that the cluster's own places, beside
// workers that are a gang. A role that names none, where others do, gets the cluster's own; where it does not, it starts by itself.
func without(roles []Size, served func(scheduler string) bool) []Size {
	named := slices.ContainsFunc(roles, func(role Size) bool { return role.Scheduler != "" && served(role.Scheduler) })
	if !named {
		return roles
	}
	out := slices.Clone(roles)
	for i := range out {
		if !served(cmp.Or(out[i].Scheduler, corev1.DefaultSchedulerName)) {
			out[i].Alone = true
		}
	}
	return out
}

// grouped reports whether the pods of a profile are grouped.
func (p *plan) grouped(s *Settings) bool {
	// What is neither "true" nor "false" is a flaw of something that asks for a group.
	return p.choice.Gang != "false" && (p.choice.Gang != "" || p.asks || s.Always)
}

// roleOf is the role of a pod, or false where it has none of some that its object has.
func roleOf(rule *Rule, roles []Size, pod *corev1.Pod) (Size, bool) {
	if rule.RoleLabel == "" && len(roles) > 0 {
		return roles[0], true
	}
	value := pod.Labels[rule.RoleLabel]
	for _, role := range roles {
		if role.Name == value || role.Name == AnyName && value != "" {
			return role, true
		}
	}
	return Size{}, false
}

// members is how many the group of a unit and role, of which the unit has such roles, needs, 0 where the object has no such group any more; and how many of them are
// not to come any more. A group of which none is needed, and some may come, is one of one.
func (p *plan) members(roles []Size, suffix suffix) (count, over int64) {
	for _, role := range roles {
		if !role.Alone && (!p.perRole || role.Name == suffix.role) {
			count += role.Count
			over += role.Over
		}
	}
	if count == 0 && slices.ContainsFunc(roles, func(role Size) bool {
		return role.MayCome && !role.Alone && (!p.perRole || role.Name == suffix.role)
	}) {
		return 1, 0
	}
	return count, over
}

// suffix tells the groups of one object apart.
type suffix struct{ unit, role string }

// names is the part of a group's name that stands for a suffix.
func (s suffix) name() string {
	parts := slices.DeleteFunc([]string{s.unit, s.role}, func(part string) bool { return part == "" })
	return strings.ToLower(strings.Join(parts, "-"))
}

// Settings are what a profile asks for.
type Settings struct {
	// Always has all objects grouped that do not ask for the opposite.
	Always bool
	rules  []*Rule
	// queue are further keys by which pods name their queue.
	queue []key
}

// NewSettings are those of a profile with rules.
func NewSettings(rules []*Rule, always bool) *Settings {
	return &Settings{Always: always, rules: rules}
}

// Merge is the union of the rules of profiles, by kind. One kind has one rule.
func Merge(profiles map[string]*Settings) ([]*Rule, error) {
	var out []*Rule
	from := make(map[*Rule]string)
	for _, name := range slices.Sorted(maps.Keys(profiles)) {
		for _, rule := range profiles[name].rules {
			at := slices.IndexFunc(out, func(r *Rule) bool { return r.Kind.GroupKind() == rule.Kind.GroupKind() })
			if at < 0 {
				out, from[rule] = append(out, rule), name
				continue
			}
			if !reflect.DeepEqual(out[at], rule) {
				return nil, fmt.Errorf("profile %s: groups: %s has another rule in profile %s; write the same in both",
					name, rule.Kind.GroupKind(), from[out[at]])
			}
		}
	}
	return out, nil
}

// has reports whether the profile groups the pods of a kind by its own rule.
func (s *Settings) has(kind schema.GroupKind) bool {
	return slices.ContainsFunc(s.rules, func(r *Rule) bool { return r.Kind.GroupKind() == kind })
}

// follows reports whether objects of a kind may be, or lead to, those that the profile groups pods by.
func (s *Settings) follows(kind schema.GroupKind) bool {
	return s.has(kind) || slices.ContainsFunc(s.rules, func(r *Rule) bool {
		return slices.ContainsFunc(r.Through, func(t Through) bool { return t.Kind.GroupKind() == kind })
	})
}
