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

// plan is the way that the pods of an object are grouped, from the object and its namespace.
type plan struct {
	choice  Choice
	reading Reading
	// flaw is the reason why no group can be made although one is requested; "" for none.
	flaw string
	// perRole is true for one gang per role.
	perRole bool
	// asks is true if pods have requested a gang by naming the object.
	asks bool
}

// newPlan returns the plan for an object. It inherits unset fields from its namespace. The function
// served reports whether a scheduler groups pods of its kind.
func newPlan(rule *Rule, reading Reading, own, inherited Choice, namespace string, served func(scheduler string) bool) *plan {
	reading.Roles = without(reading.Roles, served)
	p := &plan{choice: own.or(inherited), reading: reading, asks: rule.Asks}
	// An object without roles is one gang, even if its namespace asks for a gang for each role. The
	// namespace may have that setting because of other objects.
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

// without removes the roles that belong to other schedulers from the gang. An example is a driver
// for the cluster's default scheduler, with workers that are a gang. If only some roles name a
// scheduler, the default scheduler is responsible for the others. If no profile has that name, they
// are scheduled separately.
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
	// A value other than "true" or "false" also requests a group. It is reported as a flaw.
	return p.choice.Gang != "false" && (p.choice.Gang != "" || p.asks || s.Always)
}

// roleOf returns the role of a pod; false if it has none of its object's roles. A pod with a node
// keeps the role from its placement, even if its label changes.
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

// members returns the number of members that the group of a unit and role needs, given the unit's
// roles. The count is 0 if the object no longer has such a group. over is how many of these members
// are not created any more. If no member is needed but some may come, the count is 1.
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

// suffix distinguishes the groups of one object.
type suffix struct{ unit, role string }

// name returns the part of a group's name for a suffix.
func (s suffix) name() string {
	parts := slices.DeleteFunc([]string{s.unit, s.role}, func(part string) bool { return part == "" })
	return strings.ToLower(strings.Join(parts, "-"))
}

// Settings are the settings of a profile.
type Settings struct {
	// Always is true if all objects are grouped unless they opt out.
	Always bool
	rules  []*Rule
	// queue are further keys that name the queue of a pod.
	queue []key
}

// NewSettings returns the settings of a profile with rules.
func NewSettings(rules []*Rule, always bool) *Settings {
	return &Settings{Always: always, rules: rules}
}

// Merge returns the union of the profiles' rules. Profiles must have the same rule for a kind.
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

// has reports whether the profile has a rule for a kind.
func (s *Settings) has(kind schema.GroupKind) bool {
	return slices.ContainsFunc(s.rules, func(r *Rule) bool { return r.Kind.GroupKind() == kind })
}

// follows reports whether objects of a kind may define groups of the profile, or lead to objects
// that do.
func (s *Settings) follows(kind schema.GroupKind) bool {
	return s.has(kind) || slices.ContainsFunc(s.rules, func(r *Rule) bool {
		return slices.ContainsFunc(r.Through, func(t Through) bool { return t.Kind.GroupKind() == kind })
	})
}
