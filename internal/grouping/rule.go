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

// Path names a field: names with dots between them, or in brackets where they have dots themselves, as in
// "metadata.annotations[example.com/size]". "" is for none.
type Path string

// names are those of a path, one below the other.
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

// value is what stands at a path below from, if anything does.
func (p Path) value(from map[string]any) (any, bool) {
	if p == "" {
		return nil, false
	}
	v, ok, err := unstructured.NestedFieldNoCopy(from, p.names()...)
	return v, ok && err == nil && v != nil
}

// Condition is that a field has a value, written as text; "" for any.
type Condition struct {
	Path   Path
	Equals string
}

func (c Condition) holds(from map[string]any) bool {
	v, ok := c.Path.value(from)
	return ok && (c.Equals == "" || fmt.Sprint(v) == c.Equals)
}

// Rule says of one kind of objects how many pods belong together.
type Rule struct {
	Kind     schema.GroupVersionKind
	Resource string
	// Through are kinds between the object and its pods that have to be followed to find it.
	Through []Through
	// Suspend is a boolean.
	Suspend Path
	// Ends are the types of conditions, and EndsWhen values of other fields, by which an object says that its work is over.
	Ends     []string
	EndsWhen []Condition
	// NameLabel is the label by which pods name the object; "" where owner references lead to it.
	NameLabel string
	// MakesAll is true where an object makes each of its pods itself: an older one that names it is of another one that had its name.
	// Others may take over pods that have been left behind.
	MakesAll bool
	// Names are several keys in place of it, of which the first counts that a pod has.
	Names []key
	// Count is where pods say how many they are; such gangs have no object.
	Count key
	// Asks is true where to name an object is to ask for a gang.
	Asks bool
	// Refused are fields that confine a gang in ways that are not known here: no gang is made where they are set.
	Refused []Refusal
	// Queue and PriorityClass are where an object names them.
	Queue, PriorityClass Path
	// WholeWhen are conditions under which the controller deletes all pods of a gang when one goes.
	// The gang is then preempted whole, unless an annotation has another disruption mode.
	WholeWhen []Condition
	// UnitLabel tells replicas apart that are gangs of their own; "" for none. Units is how many there are, 1 if absent.
	UnitLabel string
	Units     Path
	// RoleLabel tells roles apart. Without one, all pods have the first role.
	RoleLabel string
	Roles     []Role
	// Aside is a label of pods that belong to the object and have no place in a gang, whatever their role.
	Aside Label
	// InOrder are conditions under which one role waits for another: no gang can then span them.
	InOrder []Condition
	// InOrderItems is the path of a list of which any item may have the field InOrderField to the same effect.
	InOrderItems, InOrderField Path
}

// Refusal is a field that may not be set, unless another one is; "" for none that changes that.
type Refusal struct{ Set, Unless Path }

// refuses reports whether an object has the field.
func (r *Refusal) refuses(from map[string]any) bool {
	return isSet(r.Set, from) && !isSet(r.Unless, from)
}

// Label is one that pods have. The zero Label is on none.
type Label struct{ Key, Value string }

func (l Label) isOn(pod *corev1.Pod) bool { return l.Key != "" && pod.Labels[l.Key] == l.Value }

// Through is a kind between objects and their pods.
type Through struct {
	Kind     schema.GroupVersionKind
	Resource string
}

// Role is one kind of an object's pods, or with Each one for each item of a list or map.
type Role struct {
	// Name is the value of the rule's RoleLabel; AnyName fits all that others do not, and NoName pods without the label.
	Name string
	// Each is the path of a list or map. NameAt is where its items have their names; those of a map are its keys, in lower
	// case. Paths below are within an item then.
	Each, NameAt Path
	// Where is a path without which the object has no such role; "" for one that it has in any case.
	Where Path
	// Off is a boolean that is true while the role has no pods.
	Off Path
	// The role has Times × Replicas pods, which are raised to AtLeast and then lowered to AtMost.
	Times, Replicas, AtLeast, AtMost Path
	// Minimum takes the place of that product's second factor where Elastic, a boolean of the whole object, is true. An
	// empty Elastic always is. Least is Minimum where nothing is there; 0 for what Replicas come to.
	Minimum, Elastic Path
	Least            int64
	// Default is Replicas where nothing is there; 0 for an error. Plus is added to each product: LeaderWorkerSets count
	// their leader with the workers.
	Default, Plus int64
	// Floor is the least of each product.
	Floor int64
	// Done are how many of AtMost are over and have no pods any more: numbers, or lists of indexes such as "0,3-5".
	Done []Path
	// Alone has the pods scheduled by themselves; AloneWhen does so on any of some conditions on the whole object.
	Alone     bool
	AloneWhen []Condition
	// Led, of the whole object, and ItemLed tell that the first pod of each product has to have a node before the others are made.
	Led, ItemLed Led
	// Said is where pods say what Replicas were when their unit was made. It counts for that unit.
	Said key
	// Templates are where the template of the pods may stand. The first counts that is there.
	Templates []Path
}

// Led is a field that has one pod go before others where it is set, unless another one is set as well.
type Led struct{ When, Unless Path }

const (
	// AnyName is for a role that has no name of its own.
	AnyName = "*"
	// NoName is for pods without the label of roles.
	NoName = ""
)

// Size is how many pods a role has.
type Size struct {
	Name  string
	Count int64
	// Over is how many of Count are not to come any more, since that much of the object's work is done.
	Over int64
	// MayCome is true where Count is 0 because no pod is needed, though some may come.
	MayCome bool
	Alone   bool
	// Led is true where all but the first pods are made only once those have a node.
	Led bool
	// Scheduler is the one that the template of the pods names; "" for none.
	Scheduler string
}

// Reading is what an object says of its pods.
type Reading struct {
	Suspended bool
	// Finished is true once its work is over: no pods are to come any more.
	Finished bool
	Units    int64
	Roles    []Size
	// Queue and PriorityClass are what it asks for in its fields; "" for nothing.
	Queue, PriorityClass string
	// Whole is true where the controller deletes all pods of a gang when one goes.
	Whole bool
	// InOrder is true where one role's pods come once those of another are ready.
	InOrder bool
	// Flaw says what could not be read; "" for nothing.
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

// conditions is where objects have conditions.
const conditions Path = "status.conditions"

// isFinished reports whether an object says that its work is over.
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

// isSet reports whether something stands at a path, other than nothing in so many words.
func isSet(field Path, from map[string]any) bool {
	v, ok := field.value(from)
	return ok && !reflect.ValueOf(v).IsZero() && fmt.Sprint(v) != "map[]"
}

// item is one of a list or map.
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

// size is that of one role of an object, or of an item of it.
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

// isLed reports whether some of so many pods are made only once others have a node.
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

// scheduler is the one that the template of the pods names.
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

// schedulerName is where a template of pods names their scheduler.
const schedulerName Path = ".spec.schedulerName"

// count is how many pods a role needs, and how many of those are not to come any more.
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
	return times * count, times * over, nil
}

// isElastic reports whether fewer pods of a role may be needed than there may be.
func (role *Role) isElastic(root map[string]any) bool {
	elastic := role.Elastic == ""
	if v, ok := role.Elastic.value(root); ok {
		elastic, _ = v.(bool)
	}
	return elastic && role.Minimum != ""
}

// mayCome reports whether a role of which so many are needed is one that needs none, and may have some.
func (role *Role) mayCome(root, from map[string]any, count int64) bool {
	off, _ := role.Off.value(from)
	return count == 0 && off != true && !role.Alone && role.isElastic(root)
}

// elastic is how many of the pods of a role are needed, if that may be fewer.
func (role *Role) elastic(root, from map[string]any, count, most int64) (int64, error) {
	if !role.isElastic(root) {
		return count, nil
	}
	least, err := optional(from, role.Minimum, cmp.Or(role.Least, count))
	return min(least, most), err
}

// done is how many of a role's pods are over. What cannot be read is not: too few are only waited for.
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

// indexes counts those of a list such as "0,3-5".
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

// optional is the number at a path; where nothing is there, the given one.
func optional(from map[string]any, path Path, standard int64) (int64, error) {
	if _, ok := path.value(from); !ok {
		return standard, nil
	}
	return number(from, path, standard)
}

// number is the one at a path; where nothing is there, the given one, unless that is 0.
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
	return n, nil
}
