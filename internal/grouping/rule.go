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
// "metadata.annotations[example.com/size]". "" is no path.
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

// value returns the value at a path below from, if it exists.
func (p Path) value(from map[string]any) (any, bool) {
	if p == "" {
		return nil, false
	}
	v, ok, err := unstructured.NestedFieldNoCopy(from, p.names()...)
	return v, ok && err == nil && v != nil
}

// Condition is true if a field has the given value, compared as text; "" accepts any value.
type Condition struct {
	Path   Path
	Equals string
}

func (c Condition) holds(from map[string]any) bool {
	v, ok := c.Path.value(from)
	return ok && (c.Equals == "" || fmt.Sprint(v) == c.Equals)
}

// Rule defines, for one kind of objects, which pods of an object belong together and how many.
type Rule struct {
	Kind     schema.GroupVersionKind
	Resource string
	// Through are the kinds between the object and its pods that must be followed to find it.
	Through []Through
	// Suspend is the path of a boolean.
	Suspend Path
	// Ends are the types of conditions that show that the object's work is done. EndsWhen are
	// values of other fields that show the same.
	Ends     []string
	EndsWhen []Condition
	// NameLabel is the label that pods name the object with; "" if owner references lead to the
	// object.
	NameLabel string
	// MakesAll is true if an object creates each of its pods itself. A pod that is older than the
	// object then belongs to an earlier object with the name. Objects of other kinds may adopt
	// existing pods.
	MakesAll bool
	// Names replaces NameLabel by several keys. The first one that a pod has is used.
	Names []key
	// Count is the key of pods that gives the number of members. Such gangs have no object.
	Count key
	// Asks is true if a pod that names an object requests a gang by that.
	Asks bool
	// Refused are fields with constraints that Reprieve does not support for gangs. If one is set,
	// no gang is made.
	Refused []ForbiddenField
	// Queue and PriorityClass are the paths of the fields that name them in an object.
	Queue, PriorityClass Path
	// WholeWhen are conditions on an object. If one is true, the controller deletes all pods of a
	// gang when one of them is deleted. The gang is then preempted as a whole, unless an annotation
	// sets another disruption mode.
	WholeWhen []Condition
	// UnitLabel is the label that distinguishes replicas, each a gang of its own; "" for none.
	// Units is the path of the number of replicas, 1 if absent.
	UnitLabel string
	Units     Path
	// RoleLabel is the label that distinguishes roles. Without it, all pods have the first role.
	RoleLabel string
	Roles     []Role
	// Aside is a label of pods that belong to the object but to none of its gangs.
	Aside Label
	// InOrder are conditions on an object. If one is true, pods of one role wait for another role.
	// Then no gang can span the roles.
	InOrder []Condition
	// InOrderItems is the path of a list. If any item has the field InOrderField, roles wait for
	// each other too.
	InOrderItems, InOrderField Path
}

// ForbiddenField is a field that must not be set, unless the field Unless is set; "" for no
// exception.
type ForbiddenField struct{ Set, Unless Path }

// refuses reports whether an object has the forbidden field.
func (r *ForbiddenField) refuses(from map[string]any) bool {
	return isSet(r.Set, from) && !isSet(r.Unless, from)
}

// Label is a label of pods. The zero Label matches no pod.
type Label struct{ Key, Value string }

func (l Label) isOn(pod *corev1.Pod) bool { return l.Key != "" && pod.Labels[l.Key] == l.Value }

// Through is a kind between objects and their pods.
type Through struct {
	Kind     schema.GroupVersionKind
	Resource string
}

// Role is one role of an object's pods. With Each, it is one role for each item of a list or map.
type Role struct {
	// Name is the value of the rule's RoleLabel. AnyName means all values without a role of their
	// own, and NoName means pods without the label.
	Name string
	// Each is the path of a list or map; each item is a role. NameAt is the path of an item's name.
	// Items of a map have their keys as names, in lower case. With Each, the paths that follow are
	// relative to an item.
	Each, NameAt Path
	// Where is a path that the object must have for the role to exist; "" if it always exists.
	Where Path
	// Off is the path of a boolean that is true while the role has no pods.
	Off Path
	// The role has Times × Replicas pods, but at least AtLeast and at most AtMost.
	Times, Replicas, AtLeast, AtMost Path
	// If Elastic, a boolean of the whole object, is true, Minimum takes the place of Replicas in
	// the number of needed pods. An empty Elastic counts as true. Least is the value of an absent
	// Minimum; 0 means the value of Replicas.
	Minimum, Elastic Path
	Least            int64
	// Default is the value of absent Replicas; 0 means that absent Replicas are an error. Plus is
	// added to the product, because LeaderWorkerSets count their leader among the workers.
	Default, Plus int64
	// Floor is a lower bound of each product.
	Floor int64
	// Done are the paths of fields that tell how many of the AtMost pods have finished and are not
	// created again. The fields are numbers, or lists of indexes such as "0,3-5".
	Done []Path
	// Alone is true if the pods of the role are scheduled one by one. AloneWhen are conditions on
	// the whole object with the same effect; one is enough.
	Alone     bool
	AloneWhen []Condition
	// Leads is true for drivers: their workers are created after the driver runs. It has an effect
	// for pods that are scheduled one by one, and if the object needs no pods of other roles at
	// first.
	Leads bool
	// Led and ItemLed tell that all pods but the first of a role are created only after the first
	// one has a node. Led is a field of the whole object, and ItemLed a field of the item.
	Led, ItemLed Led
	// Said is a key on pods with the value that Replicas had when the pod's unit was created. The
	// value applies to that unit.
	Said key
	// Templates are the possible paths of the pods' template. The first one that exists is used.
	Templates []Path
}

// Led is a condition: the field When is set, and the field Unless is not.
type Led struct{ When, Unless Path }

const (
	// AnyName is the name of a role for all other values of the label.
	AnyName = "*"
	// NoName is the name of a role for pods without the label of roles.
	NoName = ""
)

// Size is the number of pods of a role.
type Size struct {
	Name  string
	Count int64
	// Over is how many pods in Count are not created any more, because their part of the work is
	// done.
	Over int64
	// MayCome is true if Count is 0 because no pod is needed, although some may come.
	MayCome bool
	Alone   bool
	// Led is true if all but the first pods are created only after these have a node.
	Led bool
	// Scheduler is the scheduler in the pods' template; "" for none.
	Scheduler string
}

// Reading is the information that a rule reads from an object.
type Reading struct {
	Suspended bool
	// Finished is true if the object's work is done and no more pods will come.
	Finished bool
	Units    int64
	Roles    []Size
	// Queue and PriorityClass are the names in the object's fields; "" for none.
	Queue, PriorityClass string
	// Whole is true if the controller deletes all pods of a gang when one is deleted.
	Whole bool
	// InOrder is true if the pods of one role are created once the pods of another role are ready.
	InOrder bool
	// Flaw is the reason why the object is invalid; "" for none.
	Flaw string
}

// Read reads an object.
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

// isFinished reports whether an object's work is done.
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

// isSet reports whether a field has a value other than its zero value or an empty map.
func isSet(field Path, from map[string]any) bool {
	v, ok := field.value(from)
	return ok && !reflect.ValueOf(v).IsZero() && fmt.Sprint(v) != "map[]"
}

// item is an item of a list or map.
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

// size returns the size of one role of an object, or of an item in it.
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

// scheduler returns the scheduler in the pods' template.
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

// schedulerName is the path of the scheduler in a template.
const schedulerName Path = ".spec.schedulerName"

// count returns the number of pods that a role needs. over is the number of these pods that are not
// created any more.
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

// isElastic reports whether a role may need fewer pods than it may have, on this object.
func (role *Role) isElastic(root map[string]any) bool {
	elastic := role.Elastic == ""
	if v, ok := role.Elastic.value(root); ok {
		elastic, _ = v.(bool)
	}
	return elastic && role.Minimum != ""
}

// mayCome reports whether a role needs no pods, by its count, but may have some.
func (role *Role) mayCome(root, from map[string]any, count int64) bool {
	off, _ := role.Off.value(from)
	return count == 0 && off != true && !role.Alone && role.isElastic(root)
}

// elastic returns how many of a role's pods are needed, which may be fewer than count.
func (role *Role) elastic(root, from map[string]any, count, most int64) (int64, error) {
	if !role.isElastic(root) {
		return count, nil
	}
	least, err := optional(from, role.Minimum, cmp.Or(role.Least, count))
	return min(least, most), err
}

// done returns the number of a role's pods that are done. Unreadable values count as 0, so that a
// gang waits for pods and does not start with too few.
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

// indexes counts the indexes in a list such as "0,3-5".
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

// optional returns the number at a path, or the value standard if there is none.
func optional(from map[string]any, path Path, standard int64) (int64, error) {
	if _, ok := path.value(from); !ok {
		return standard, nil
	}
	return number(from, path, standard)
}

// number returns the number at a path, or the value standard if there is none. A standard of 0
// means that a missing number is an error.
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
