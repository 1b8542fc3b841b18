package whatif

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/derived"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// mostDomains is the maximum number of domains of one level with room at a known time. It is also
// the maximum number of listed domains of a level that lack room after all declared ends.
const mostDomains = 5

// Domain is a topology domain: the nodes with a value of a node label.
type Domain struct {
	// Key is the label.
	Key string `json:"key"`
	// Name is the value. It has the values of farther levels in front if it is not unique.
	Name string `json:"name"`
}

// LevelBounds has bounds for the topology domains of one level of a gang.
type LevelBounds struct {
	// Key is the label of the level.
	Key string `json:"key"`
	// Domains has the domains with room at a known time, the earliest first. The domains without
	// such a time follow, with room for the most members first.
	Domains []DomainBounds `json:"domains"`
	// Unlisted is the number of domains of the level that Domains leaves out.
	Unlisted int `json:"unlisted,omitempty"`
}

// DomainBounds are bounds for the time when one topology domain has room for a gang.
type DomainBounds struct {
	Name string `json:"name"`
	// NotBefore, BecauseOf, AtTheLatest and Then have the same meaning as in [Bounds]. For a
	// preferred level, they are about the start in this domain, and the gang may start elsewhere
	// before that.
	NotBefore   *time.Time `json:"notBefore,omitempty"`
	BecauseOf   string     `json:"becauseOf,omitempty"`
	AtTheLatest *time.Time `json:"atTheLatest,omitempty"`
	Then        string     `json:"then,omitempty"`
	// Lacks describes the missing room; nil if AtTheLatest is set.
	Lacks *DomainRoom `json:"lacks,omitempty"`
}

// DomainRoom describes the room in a topology domain after all declared ends of running pods.
type DomainRoom struct {
	// Needed is the number of members that the gang needs to place.
	Needed int `json:"needed"`
	// Room is the number of members that fit without evictions. AfterPreemption is the number of
	// members that fit after the eviction of all potential victims. Both are at most Needed.
	Room            int `json:"room"`
	AfterPreemption int `json:"afterPreemption"`
	// InTheWay counts the protected units in the domain, by rule.
	InTheWay []core.RuleCount `json:"inTheWay,omitempty"`
	// Endless is the number of pods that run in the domain and declare no end. Unread is the number
	// of pods there whose end is unknown.
	Endless int `json:"endless,omitempty"`
	Unread  int `json:"unread,omitempty"`
	// Empty is the number of members that would fit if no other pod had a node. It is nil if all
	// needed members would fit, or if another reason blocks the workload. It is also nil for
	// members with required affinity to pods or with ResourceClaims, because their room may depend
	// on other pods.
	Empty *int `json:"empty,omitempty"`
}

// sharedDomains returns the topology domains that all members share after a decision, the nearest
// level first.
func sharedDomains(step *Step) []Domain {
	d := step.decision
	if d == nil {
		return nil
	}
	var out []Domain
	for i := range d.Levels {
		if l := &d.Levels[i]; l.Together {
			out = append(out, Domain{Key: l.Key, Name: l.Name})
		}
	}
	if d.Domain != nil && d.Domain.Name != "" {
		out = append(out, Domain{Key: d.Domain.Key, Name: d.Domain.Name})
	}
	return out
}

// levels returns bounds for single domains of each topology level. step is the decision for now,
// and whole has the bounds for the start in any domain. The result is nil for workloads without
// levels, and for workloads that can start now or after pods have terminated.
func (f *forecast) levels(ctx context.Context, step *Step, whole *Bounds) ([]LevelBounds, error) {
	if step.Outcome != core.Infeasible || step.decision == nil || len(step.Levels) == 0 && step.Domain == nil {
		return nil, nil
	}
	nodes, err := inventory.Decode[*corev1.Node](f.objects, inventory.Nodes)
	if err != nil {
		return nil, err
	}
	groups, err := derived.New(f.objects, f.cfg)
	if err != nil {
		return nil, err
	}
	var out []LevelBounds
	for _, l := range topologyLevels(nodes, &step.decision.Preemptor) {
		df := &domainForecast{forecast: f, level: l, nodes: nodes, step: step, groups: groups}
		bounds, err := df.bounds(ctx, whole)
		if err != nil {
			return nil, err
		}
		out = append(out, bounds)
	}
	return out, nil
}

// domainForecast derives bounds for the domains of one topology level.
type domainForecast struct {
	*forecast
	level topologyLevel
	nodes []*corev1.Node
	// step is the decision for now.
	step *Step
	// groups finds the PodGroups of pods.
	groups gang.Membership
}

// bounds returns the bounds for the domains of the level. It looks for the first domain with room,
// then for the first of the other domains, and so on. whole has the bounds for any domain.
func (df *domainForecast) bounds(ctx context.Context, whole *Bounds) (LevelBounds, error) {
	left := df.level.names()
	out := LevelBounds{Key: df.level.key, Unlisted: len(left)}
	found := func(name string, b *Bounds) {
		delete(left, name)
		out.Domains = append(out.Domains, DomainBounds{Name: name, NotBefore: b.NotBefore, BecauseOf: b.BecauseOf, AtTheLatest: b.AtTheLatest, Then: b.Then})
	}
	for _, d := range whole.In {
		if d.Key == df.level.key {
			found(d.Name, whole)
		}
	}
	last := whole.horizon
	for last == nil && len(left) > 0 && len(out.Domains) < mostDomains {
		b, err := df.among(ctx, left)
		switch {
		case err != nil:
			return out, err
		case b.AtTheLatest == nil:
			last = b.horizon
		case len(b.In) > 0:
			found(b.In[0].Name, b)
		}
		if len(b.In) == 0 {
			break
		}
	}
	if last == nil && len(left) > 0 && len(out.Domains) == mostDomains {
		var err error
		if last, err = df.afterAll(ctx, left); err != nil {
			return out, err
		}
	}
	lacking, err := df.lacking(ctx, last)
	out.Domains = append(out.Domains, lacking...)
	out.Unlisted -= len(out.Domains)
	return out, err
}

// among returns bounds for the start in one of the domains with the given names.
func (df *domainForecast) among(ctx context.Context, names map[string]bool) (*Bounds, error) {
	f, err := df.divide(names)
	if err != nil {
		return nil, err
	}
	step, err := f.decide(ctx, f.objects)
	if err != nil {
		return nil, err
	}
	return f.bounds(ctx, &step)
}

// afterAll returns the decision for the time after all declared ends, if none of the domains with
// the given names has room then. It returns nil if one of them has room, or if no end is declared.
func (df *domainForecast) afterAll(ctx context.Context, names map[string]bool) (*Step, error) {
	f, err := df.divide(names)
	if err != nil {
		return nil, err
	}
	ends, err := f.ends(&Bounds{})
	if err != nil || len(ends) == 0 {
		return nil, err
	}
	step, err := f.decide(ctx, f.afterEnds(ends))
	if err != nil || isPlaced(&step) {
		return nil, err
	}
	return &step, nil
}

// lacking describes the domains with too little room after all declared ends, by the decision for
// that time. The result is nil if the decision is nil or compared no domains.
func (df *domainForecast) lacking(ctx context.Context, last *Step) ([]DomainBounds, error) {
	var out []DomainBounds
	if last == nil || last.decision == nil {
		return nil, nil
	}
	for _, other := range othersOf(last.decision, df.level.key) {
		if len(out) == mostDomains {
			break
		}
		room := &DomainRoom{
			Needed: max(last.decision.Preemptor.MinCount, 1), Room: other.Now, AfterPreemption: other.Members, InTheWay: other.InTheWay,
		}
		if err := df.countEndless(other.Name, room); err != nil {
			return nil, err
		}
		empty, err := df.whenEmpty(ctx, other.Name)
		if err != nil {
			return nil, err
		}
		room.Empty = empty
		out = append(out, DomainBounds{Name: other.Name, Lacks: room})
	}
	return out, nil
}

// othersOf returns the domains of a level that a decision did not choose. The level is one of the
// gang's levels, or the level of labelDomain that replaces it.
func othersOf(d *core.Decision, key string) []core.OtherDomain {
	if d.Domain != nil && (d.Domain.Key == key || d.Domain.Key == labelDomain) {
		return d.Domain.Others
	}
	for i := range d.Levels {
		if d.Levels[i].Key == key {
			return d.Levels[i].Others
		}
	}
	return nil
}

// countEndless counts the pods of other work that run in a domain and have no known end. It sets
// room.Endless and room.Unread.
func (df *domainForecast) countEndless(name string, room *DomainRoom) error {
	for _, pod := range df.pods {
		if df.level.domainOf[pod.Spec.NodeName] != name || hasFinished(pod) || df.isOwn(pod) {
			continue
		}
		switch _, state, err := declaredEnd(df.objects, pod); {
		case err != nil:
			return err
		case state == endUnknown:
			room.Unread++
		case state == endSilent:
			room.Endless++
		}
	}
	return nil
}

// whenEmpty returns the number of members that a domain could hold if no other pod had a node. It
// returns nil if that number is enough, or if the workload is blocked for another reason. It also
// returns nil if a member can have room only because of other pods; see [needsOthers].
func (df *domainForecast) whenEmpty(ctx context.Context, name string) (*int, error) {
	if slices.ContainsFunc(df.pods, func(pod *corev1.Pod) bool { return df.isOwn(pod) && needsOthers(pod) }) {
		return nil, nil
	}
	f, err := df.divide(map[string]bool{name: true})
	if err != nil {
		return nil, err
	}
	gone := make(map[types.UID]bool)
	for _, pod := range df.pods {
		hasNode := pod.Spec.NodeName != "" || pod.Status.NominatedNodeName != ""
		if hasNode && !df.isOwn(pod) {
			gone[pod.UID] = true
		}
	}
	step, err := f.decide(ctx, f.objects.Without(inventory.Pods, gone))
	if err != nil || step.Outcome != core.Infeasible || step.decision == nil {
		return nil, err
	}
	for _, other := range othersOf(step.decision, df.level.key) {
		if other.Name == name && other.Members < max(step.decision.Preemptor.MinCount, 1) {
			return &other.Members, nil
		}
	}
	return nil, nil
}

// needsOthers reports whether the room for a pod may depend on other pods that run. A required
// affinity may select running pods. A claim may be allocated to devices that running pods use, and
// it keeps these devices when they end.
func needsOthers(pod *corev1.Pod) bool {
	if len(pod.Spec.ResourceClaims) > 0 {
		return true
	}
	a := pod.Spec.Affinity
	return a != nil && a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
}

// isOwn reports whether a pod belongs to the workload.
func (df *domainForecast) isOwn(pod *corev1.Pod) bool {
	key, ok := df.groups.GroupOf(pod)
	return ok && key == df.groupKey() || pod.Namespace == df.key.Namespace && slices.Contains(df.step.Pods, pod.Name)
}

// groupKey returns the key of the workload's group.
func (df *domainForecast) groupKey() types.NamespacedName {
	p := &df.step.decision.Preemptor
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}

// divide returns a forecast for the workload as if its only topology level required one of the
// domains with the given names.
func (df *domainForecast) divide(names map[string]bool) (*forecast, error) {
	var changes []inventory.Change
	for _, node := range df.nodes {
		if name := df.level.domainOf[node.Name]; names[name] {
			node = node.DeepCopy()
			if node.Labels == nil {
				node.Labels = make(map[string]string)
			}
			node.Labels[labelDomain] = name
			changes = append(changes, inventory.Change{Resource: inventory.Nodes, Object: node})
		}
	}
	objects, err := df.objects.With(changes...)
	if err != nil {
		return nil, err
	}
	f, group := *df.forecast, df.groupKey()
	f.objects, f.divided = objects, &group
	return &f, nil
}

// names returns the names of the level's domains.
func (l *topologyLevel) names() map[string]bool {
	out := make(map[string]bool)
	for name := range maps.Values(l.domainOf) {
		out[name] = true
	}
	return out
}
