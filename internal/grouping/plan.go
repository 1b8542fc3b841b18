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
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// plan defines how the pods of an object are grouped, according to the object and its namespace.
type plan struct {
	choice  Choice
	reading Reading
	// flaw is the reason why the requested group cannot be derived. It is empty if it can be
	// derived.
	flaw string
	// perRole is true if each role is a gang, instead of all roles together.
	perRole bool
	// tree is true if the groups of the object are the parts of a tree. It is false if the plan has
	// no groups.
	tree bool
	// asks is true if naming the object is a request for a gang.
	asks bool
}

// newPlan returns the plan for an object. The object's own settings precede the namespace's
// inherited ones. served reports whether a scheduler name is a profile that groups pods of the
// object's kind.
func newPlan(rule *Rule, reading Reading, own, inherited Choice, namespace string, served func(scheduler string) bool) *plan {
	reading.Roles = without(reading.Roles, served)
	p := &plan{choice: own.or(inherited), reading: reading, asks: rule.Asks}
	// An object without roles is one gang, even if its namespace requests a gang for each role. The
	// namespace may request this for other objects.
	p.tree = p.choice.Per == v1alpha1.GangPerTree && (rule.RoleLabel != "" || rule.UnitLabel != "")
	p.perRole = rule.RoleLabel != "" && (p.choice.Per == v1alpha1.GangPerRole || p.choice.Per == "" && reading.InOrder || p.tree && rule.UnitLabel == "")
	if !p.tree && p.choice.Per == v1alpha1.GangPerTree && p.choice.DisruptionMode == string(v1alpha1.CompositeDisruptionModeAll) {
		// The object is one gang, so the modes All and PodGroup mean the same.
		p.choice.DisruptionMode = string(v1alpha1.DisruptionModePodGroup)
	}
	p.flaw = p.flawFor(rule, namespace)
	return p
}

// flawFor returns the reason why Reprieve creates no group for the object; "" for none. namespace
// is the namespace of the object.
func (p *plan) flawFor(rule *Rule, namespace string) string {
	switch {
	case p.choice.flaw() != "":
		return p.choice.flaw()
	case p.choice.allowed(namespace) != "":
		return p.choice.allowed(namespace)
	case p.reading.Flaw != "":
		return p.reading.Flaw
	case p.tree && p.flawOfTree(rule) != "":
		return p.flawOfTree(rule)
	case p.reading.InOrder && !p.perRole:
		return fmt.Sprintf("its roles start one after the other, so no gang can span them; set the annotation %s to %q",
			v1alpha1.AnnotationGangPer, v1alpha1.GangPerRole)
	}
	if at := slices.IndexFunc(p.reading.Roles, func(role Size) bool { return role.Led && !role.Alone }); at >= 0 {
		return fmt.Sprintf("of its role %s, the first pod of each Job has to have a node before the others are made (exclusive placement), so no gang can have them; "+
			"set the annotation %s to \"false\"", p.reading.Roles[at].Name, v1alpha1.AnnotationGang)
	}
	return ""
}

// without marks the roles whose pods belong to other schedulers as Alone, so that the gang does not
// include them. An example is a driver for the default scheduler whose workers are a gang.
//
// If no role names a scheduler of the served profiles, the roles are unchanged. Otherwise, a role
// without a scheduler name belongs to the default scheduler, so it is Alone unless a profile has
// that name.
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

// grouped reports whether the pods of a profile are grouped by this plan.
func (p *plan) grouped(s *Settings) bool {
	// An invalid value also counts as a request for a group. The plan's flaw then reports it.
	return p.choice.Gang != "false" && (p.choice.Gang != "" || p.asks || s.Always)
}

// roleOf returns the role of a pod. It returns false if the object has no role with the pod's
// label. A pod with a node keeps the role that it was placed in, even if its label changes.
func roleOf(rule *Rule, roles []Size, pod *corev1.Pod) (Size, bool) {
	if rule.RoleLabel == "" && len(roles) > 0 {
		return roles[0], true
	}
	if sealed := gang.RoleInSeal(pod); sealed != "" {
		if at := slices.IndexFunc(roles, func(role Size) bool { return role.Name == sealed }); at >= 0 {
			return roles[at], true
		}
	}
	value := pod.Labels[rule.RoleLabel]
	for _, role := range roles {
		if role.Name == value || role.Name == AnyName && value != "" {
			return role, true
		}
	}
	return Size{}, false
}

// members returns the number of members that the group of a suffix needs, given the roles of the
// replica. The number is 0 if there is no such group. It is 1 if the group needs no member but may
// get some.
//
// over is the number of these members that the controller no longer creates.
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

// suffix distinguishes the groups of one object by replica (unit) and role.
type suffix struct {
	unit, role string
	// tree is true for the CompositePodGroup above the groups of the object. Then unit and role are
	// empty.
	tree bool
}

// name returns the suffix as a part of the group's name.
func (s suffix) name() string {
	parts := slices.DeleteFunc([]string{s.unit, s.role}, func(part string) bool { return part == "" })
	return strings.ToLower(strings.Join(parts, "-"))
}

// Settings are the grouping settings of a profile.
type Settings struct {
	// Always is true if objects are grouped by default. Objects can opt out.
	Always bool
	rules  []*Rule
	// queue lists further labels and annotations that name the queue of a pod.
	queue []key
}

// NewSettings returns the settings of a profile with rules.
func NewSettings(rules []*Rule, always bool) *Settings {
	return &Settings{Always: always, rules: rules}
}

// Merge returns the rules of all profiles. It returns an error if two profiles have different rules
// for one kind.
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

func (s *Settings) has(kind schema.GroupKind) bool {
	return slices.ContainsFunc(s.rules, func(r *Rule) bool { return r.Kind.GroupKind() == kind })
}

// follows reports whether the profile needs objects of a kind: to define groups, or to find the
// owners that define groups.
func (s *Settings) follows(kind schema.GroupKind) bool {
	return s.has(kind) || slices.ContainsFunc(s.rules, func(r *Rule) bool {
		return slices.ContainsFunc(r.Through, func(t Through) bool { return t.Kind.GroupKind() == kind })
	})
}
