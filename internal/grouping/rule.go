package grouping

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Path is the path of a field: names separated by dots, or in brackets if they contain dots, as in
// "metadata.annotations[example.com/size]". The empty Path matches no field.
type Path string

// names returns the names of a path, from the outermost to the innermost.
func (p Path) names() []string {
	var out []string
	for rest := string(p); rest != ""; {
		plain, within, has := strings.Cut(rest, "[")
		for name := range strings.SplitSeq(strings.Trim(plain, "."), ".") {
			if name != "" {
				out = append(out, name)
			}
		}
		if rest = ""; has {
			var name string
			name, rest, _ = strings.Cut(within, "]")
			out = append(out, name)
		}
	}
	return out
}

// value returns the value at the path in an object. It returns false if there is no value.
func (p Path) value(from map[string]any) (any, bool) {
	if p == "" {
		return nil, false
	}
	v, ok, err := unstructured.NestedFieldNoCopy(from, p.names()...)
	return v, ok && err == nil && v != nil
}

// Condition is true if the field at Path has the value Equals, compared as text. An empty Equals
// accepts any value.
type Condition struct {
	Path   Path
	Equals string
}

func (c Condition) holds(from map[string]any) bool {
	v, ok := c.Path.value(from)
	return ok && (c.Equals == "" || fmt.Sprint(v) == c.Equals)
}

// Rule defines, for one kind of object, which pods of an object belong together and how many the
// gang needs.
type Rule struct {
	Kind     schema.GroupVersionKind
	Resource string
	// Through lists the kinds of objects that may be between the object and its pods.
	Through []Through
	// Suspend is the path of a boolean that is true while the object is suspended.
	Suspend Path
	// Ends lists the types of conditions that mean that the object's work is done.
	Ends []string
	// EndsWhen lists values of other fields that mean that the object's work is done.
	EndsWhen []Condition
	// NameLabel is the label that has the object's name on its pods. It is empty if owner
	// references lead from pods to the object.
	NameLabel string
	// MakesAll is true if the object's controller creates each of its pods. A pod that is older
	// than the object then belongs to an earlier object with the same name. MakesAll is false if
	// the controller may adopt existing pods.
	MakesAll bool
	// Names lists several labels and annotations that replace NameLabel. Only the first one that a
	// pod has is used.
	Names []key
	// Count is the label or annotation of pods that has the number of members. Gangs of a rule with
	// Count have no owner object.
	Count key
	// Asks is true if naming the object is a request for a gang.
	Asks bool
	// Refused lists fields with constraints that Reprieve does not support for gangs. If one of
	// them is set, no gang is derived.
	Refused []ForbiddenField
	// Queue is the path of the field that names the object's queue. PriorityClass is the path of
	// the field that names its PriorityClass.
	Queue, PriorityClass Path
	// WholeWhen lists conditions on an object. If one is true, the controller deletes all pods of a
	// gang when one of them is deleted. The scheduler then preempts the gang as a whole, unless an
	// annotation sets another disruption mode.
	WholeWhen []Condition
	// UnitLabel is the pod label that has the replica. Each replica is a gang. It is empty if the
	// object has no replicas.
	UnitLabel string
	// Units is the path of the number of replicas, which defaults to 1.
	Units Path
	// RoleLabel is the pod label that has the role. If it is empty, all pods have the first role.
	RoleLabel string
	Roles     []Role
	// Aside is a label of pods that belong to the object but not to a gang.
	Aside Label
	// InOrder lists conditions on an object. If one is true, the pods of one role are created after
	// the pods of another role are ready. Each role is then a gang, because a gang of all roles
	// would never start.
	InOrder []Condition
	// InOrderItems is the path of a list. If any item has the field InOrderField, the effect is the
	// same as for InOrder.
	InOrderItems, InOrderField Path
}

// ForbiddenField is a field (Set) that must not be set. If another field (Unless) is set, Set is
// allowed. An empty Unless means that there is no exception.
type ForbiddenField struct{ Set, Unless Path }

// refuses reports whether an object has the field although it must not.
func (r *ForbiddenField) refuses(from map[string]any) bool {
	return isSet(r.Set, from) && !isSet(r.Unless, from)
}

// Label is a label of pods. The zero Label matches no pod.
type Label struct{ Key, Value string }

func (l Label) isOn(pod *corev1.Pod) bool { return l.Key != "" && pod.Labels[l.Key] == l.Value }

// Through is a kind of object between a pod and the object that defines its group, such as a Job
// between a pod and a JobSet.
type Through struct {
	Kind     schema.GroupVersionKind
	Resource string
}

// Role is one role of an object's pods. With Each, it stands for one role per item of a list or
// map.
type Role struct {
	// Name is the value of the rule's RoleLabel. AnyName matches all values that no other role has.
	// NoName matches pods without the label.
	Name string
	// Each is the path of a list or map. Each item is a role, and the paths in the fields below are
	// relative to the item.
	//
	// NameAt is the path of the item's name. The name of an item of a map is its key in lower case.
	Each, NameAt Path
	// Where is the path of a field. The role exists only if the object has the field. It is empty
	// if the role always exists.
	Where Path
	// Off is the path of a boolean. The role has no pods while it is true.
	Off Path
	// These are the paths of four numbers. The role has Times × (Replicas + Plus) pods, with
	// Replicas limited to the range from AtLeast to AtMost.
	Times, Replicas, AtLeast, AtMost Path
	// Minimum is the path of the number of needed replicas for an elastic role. It replaces
	// Replicas if Elastic is true. Elastic is the path of a boolean in the whole object; an empty
	// path counts as true.
	Minimum, Elastic Path
	// Least is the default of Minimum; 0 means that the default is the value of Replicas.
	Least int64
	// Default is the value of Replicas if the field is absent; 0 means that an absent field is an
	// error. Plus is added to Replicas. It is -1 for the workers of a LeaderWorkerSet, whose size
	// includes the leader.
	Default, Plus int64
	// Floor is the minimum of the number that is multiplied by Times.
	Floor int64
	// Done lists the paths of fields that show how many pods have finished and are not created
	// again. The fields have numbers, or lists of indexes such as "0,3-5".
	Done []Path
	// Alone is true if the pods of the role are scheduled one by one.
	Alone bool
	// AloneWhen lists conditions on the whole object. If one is true, the pods of the role are
	// scheduled one by one.
	AloneWhen []Condition
	// Leads is true for drivers, whose workers are created after the driver runs. It applies to
	// pods that are scheduled one by one, and to objects that need no workers at first.
	Leads bool
	// Led and ItemLed are conditions. If one is true, the controller creates the other pods of a
	// role only after the role's first pod has a node. Led has fields of the whole object, ItemLed
	// has fields of the item.
	Led, ItemLed Led
	// Said is a label or annotation of pods with the value that Replicas had when the pod's replica
	// was created. For that replica, the value replaces the current Replicas.
	Said key
	// Templates lists the possible paths of the pod template. The first one that exists is used.
	Templates []Path
}

// Led is a condition. It is true if the field When is set and the field Unless is not.
type Led struct{ When, Unless Path }

const (
	// AnyName is the name of a role for all label values that no other role has.
	AnyName = "*"
	// NoName is the name of a role for pods without the role label.
	NoName = ""
)

// Size is the number of pods that a role needs.
type Size struct {
	Name  string
	Count int64
	// Over is the number of pods in Count that the controller no longer creates, because their work
	// is done.
	Over int64
	// MayCome is true if the role needs no pods (Count is 0) but may get some.
	MayCome bool
	Alone   bool
	// Led is true if the controller creates the other pods only after the first pod has a node.
	Led bool
	// Scheduler is the scheduler name in the pod template. It is empty if the template has none.
	Scheduler string
}

// Reading is the information that a rule reads from an object.
type Reading struct {
	Suspended bool
	// Finished is true if the object's work is done. It gets no more pods.
	Finished bool
	Units    int64
	Roles    []Size
	// Queue and PriorityClass are the names in the object's fields. They are empty if the fields
	// are not set.
	Queue, PriorityClass string
	// Whole is true if the controller deletes all pods of a gang when one of them is deleted.
	Whole bool
	// InOrder is true if the pods of one role are created after the pods of another role are ready.
	InOrder bool
	// Flaw is the reason why the object is invalid. It is empty if the object is valid.
	Flaw string
}

// Read returns the information that the rule reads from an object.
func (r *Rule) Read(u *unstructured.Unstructured) Reading {
	out := Reading{Units: 1}
	if v, ok := r.Suspend.value(u.Object); ok {
		out.Suspended, _ = v.(bool)
	}
	out.Finished = r.isFinished(u.Object)
	for i := range r.Refused {
		if r.Refused[i].refuses(u.Object) {
			out.Flaw = fmt.Sprintf("it has %s, which Reprieve does not know how to honour", r.Refused[i].Set)
			return out
		}
	}
	if v, ok := r.Queue.value(u.Object); ok {
		out.Queue, _ = v.(string)
	}
	if v, ok := r.PriorityClass.value(u.Object); ok {
		out.PriorityClass, _ = v.(string)
	}
	out.Whole = slices.ContainsFunc(r.WholeWhen, func(c Condition) bool { return c.holds(u.Object) })
	for _, c := range r.InOrder {
		out.InOrder = out.InOrder || c.holds(u.Object)
	}
	if list, ok := r.InOrderItems.value(u.Object); ok {
		for _, item := range items(list) {
			_, has := r.InOrderField.value(item.fields)
			out.InOrder = out.InOrder || has
		}
	}
	var err error
	if r.UnitLabel != "" {
		if out.Units, err = number(u.Object, r.Units, 1); err != nil {
			out.Flaw = err.Error()
			return out
		}
	}
	for i := range r.Roles {
		sizes, err := r.Roles[i].read(u.Object)
		if err != nil {
			out.Flaw = err.Error()
			return out
		}
		out.Roles = append(out.Roles, sizes...)
	}
	return out
}

// conditions is the path of an object's conditions.
const conditions Path = "status.conditions"

func (r *Rule) isFinished(from map[string]any) bool {
	if slices.ContainsFunc(r.EndsWhen, func(c Condition) bool { return c.holds(from) }) {
		return true
	}
	list, _ := conditions.value(from)
	return slices.ContainsFunc(items(list), func(condition item) bool {
		name, _ := condition.fields["type"].(string)
		return condition.fields["status"] == "True" && slices.Contains(r.Ends, name)
	})
}

// isSet reports whether a field has a value. A zero value or an empty map does not count.
func isSet(field Path, from map[string]any) bool {
	v, ok := field.value(from)
	return ok && !reflect.ValueOf(v).IsZero() && fmt.Sprint(v) != "map[]"
}

// item is an item of a list or map. The name of an item of a map is its key.
type item struct {
	name   string
	fields map[string]any
}

func items(v any) []item {
	var out []item
	switch all := v.(type) {
	case []any:
		for _, one := range all {
			if fields, ok := one.(map[string]any); ok {
				out = append(out, item{fields: fields})
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if fields, ok := all[name].(map[string]any); ok {
				out = append(out, item{name: strings.ToLower(name), fields: fields})
			}
		}
	}
	return out
}

func (role *Role) read(root map[string]any) ([]Size, error) {
	if _, has := role.Where.value(root); role.Where != "" && !has {
		return nil, nil
	}
	if role.Each == "" {
		size, err := role.size(role.Name, root, root)
		if err != nil {
			return nil, err
		}
		return []Size{size}, nil
	}
	list, ok := role.Each.value(root)
	if !ok {
		if role.Default > 0 {
			return nil, nil
		}
		return nil, fmt.Errorf("%s matches nothing", role.Each)
	}
	var out []Size
	for _, it := range items(list) {
		name := it.name
		if v, ok := role.NameAt.value(it.fields); ok {
			name = fmt.Sprint(v)
		}
		size, err := role.size(name, root, it.fields)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", role.Each, name, err)
		}
		out = append(out, size)
	}
	return out, nil
}

// size returns the Size of one role. root is the whole object, and from is the object or the item
// with the role's fields.
func (role *Role) size(name string, root, from map[string]any) (Size, error) {
	count, over, err := role.count(root, from)
	if err != nil {
		return Size{}, err
	}
	return Size{
		Name: name, Count: count, Over: over, MayCome: role.mayCome(root, from, count),
		Alone: role.Alone || slices.ContainsFunc(role.AloneWhen, func(c Condition) bool { return c.holds(root) }),
		Led:   role.isLed(root, from, count), Scheduler: role.scheduler(from),
	}, nil
}

// isLed reports whether the controller creates some of the pods only after other pods have a node.
// root is the whole object, from is the object or the item with the role's fields.
func (role *Role) isLed(root, from map[string]any, count int64) bool {
	is := false
	for _, at := range [...]struct {
		led  Led
		from map[string]any
	}{{role.Led, root}, {role.ItemLed, from}} {
		if _, set := at.led.When.value(at.from); set {
			if _, set := at.led.Unless.value(at.from); set {
				return false
			}
			is = true
		}
	}
	times, err := number(from, role.Times, 1)
	return is && err == nil && count > times
}

// scheduler returns the scheduler name in the pod template.
func (role *Role) scheduler(from map[string]any) string {
	for _, template := range role.Templates {
		if _, is := template.value(from); is {
			v, _ := (template + schedulerName).value(from)
			name, _ := v.(string)
			return name
		}
	}
	return ""
}

// schedulerName is the path of the scheduler name in a pod template.
const schedulerName Path = ".spec.schedulerName"

// count returns the number of pods that a role needs. over is the number of these pods that the
// controller no longer creates.
func (role *Role) count(root, from map[string]any) (count, over int64, err error) {
	if off, _ := role.Off.value(from); role.Alone || off == true {
		return 0, 0, nil
	}
	times, err := number(from, role.Times, 1)
	if err != nil {
		return 0, 0, err
	}
	if count, err = number(from, role.Replicas, role.Default); err != nil {
		return 0, 0, err
	}
	least, err := optional(from, role.AtLeast, count)
	if err != nil {
		return 0, 0, err
	}
	most, err := optional(from, role.AtMost, math.MaxInt64)
	if err != nil {
		return 0, 0, err
	}
	count = min(max(count, least), most) + role.Plus
	if count, err = role.elastic(root, from, count, most); err != nil {
		return 0, 0, err
	}
	count = max(count, role.Floor)
	if len(role.Done) > 0 && most != math.MaxInt64 {
		over = count - max(min(count, most-role.done(from)), 0)
	}
	return min(times*count, math.MaxInt32), min(times*over, math.MaxInt32), nil
}

// isElastic reports whether a role of this object may need fewer pods than it may have.
func (role *Role) isElastic(root map[string]any) bool {
	elastic := role.Elastic == ""
	if v, ok := role.Elastic.value(root); ok {
		elastic, _ = v.(bool)
	}
	return elastic && role.Minimum != ""
}

// mayCome reports whether a role may get pods although it needs none. count is the number that it
// needs.
func (role *Role) mayCome(root, from map[string]any, count int64) bool {
	off, _ := role.Off.value(from)
	return count == 0 && off != true && !role.Alone && role.isElastic(root)
}

// elastic returns the number of pods that a role needs. For an elastic role, the result may be
// lower than count; for any other role, it is count. The argument most is the upper limit of the
// result.
func (role *Role) elastic(root, from map[string]any, count, most int64) (int64, error) {
	if !role.isElastic(root) {
		return count, nil
	}
	least, err := optional(from, role.Minimum, cmp.Or(role.Least, count))
	return min(least, most), err
}

// done returns the number of a role's pods that have finished. Unreadable values count as 0, so
// that a gang does not start with too few pods.
func (role *Role) done(from map[string]any) int64 {
	var sum int64
	for _, path := range role.Done {
		switch v, _ := path.value(from); v := v.(type) {
		case int64:
			sum += v
		case float64:
			sum += int64(v)
		case string:
			sum += indexes(v)
		}
	}
	return sum
}

// indexes returns the number of indexes in a list such as "0,3-5".
func indexes(list string) int64 {
	var sum int64
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.ParseInt(from, 10, 64)
		if err != nil {
			continue
		}
		last := first
		if isRange {
			if last, err = strconv.ParseInt(to, 10, 64); err != nil {
				continue
			}
		}
		sum += max(last-first+1, 0)
	}
	return sum
}

// optional returns the number at a path, or standard if there is none.
func optional(from map[string]any, path Path, standard int64) (int64, error) {
	if _, ok := path.value(from); !ok {
		return standard, nil
	}
	return number(from, path, standard)
}

// number returns the number at a path. If there is none, it returns standard, or an error if
// standard is 0.
func number(from map[string]any, path Path, standard int64) (int64, error) {
	v, ok := path.value(from)
	if !ok && (standard != 0 || path == "") {
		return standard, nil
	}
	if !ok {
		return 0, fmt.Errorf("%s matches nothing", path)
	}
	var n int64
	switch v := v.(type) {
	case int64:
		n = v
	case float64:
		n = int64(v)
	default:
		return 0, fmt.Errorf("%s is %v, which is no number", path, v)
	}
	if n < 0 {
		return 0, fmt.Errorf("%s is %d", path, n)
	}
	return min(n, math.MaxInt32), nil
}
