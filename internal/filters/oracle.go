package filters

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// Oracle answers the core for one preemptor, with the Filter plugins of a profile and the extenders. Its simulated state
// is a copy of those NodeInfos that the core changes, and one cycle state for each class, kept up to date by the plugins'
// PreFilter extensions. Classes for which only room matters need neither. An Oracle belongs to the scheduling cycle that
// made it; it is good for as long as its View is.
type Oracle struct {
	ctx     context.Context
	logger  klog.Logger
	profile framework.Framework
	view    *snapshot.View
	// preemptor is what the decision is for, as the core knows it.
	preemptor *core.Preemptor
	classes   []oracleClass
	// podSensitive is false where no class needs the simulated state; then none is kept.
	podSensitive bool
	// simulated are the nodes that have been changed, by slot.
	simulated map[int]fwk.NodeInfo
	// domains are those of the nodes by topology key, namespaces the labels of namespaces, touching what has been told of
	// units: all worked out on demand.
	domains    map[string][]int32
	namespaces map[string]labels.Set
	touching   []touch
	// before is the same without the promised pods, for as long as they are not there; nil where they do not matter.
	before *Oracle
	// users are the classes of the members that have a claim for a volume, one for each member, by its name.
	users map[string][]int
	// held are those of several members, of which some stand in the simulated state.
	held map[string]*heldClaim
	// promised is what has been reserved for pods that are promised room, by node, with promisedClaims.
	promised       map[int][]*claimed
	promisedClaims []claimPlugin
	// crossTerms are the anti-affinities between classes of the gang that no filter sees.
	crossTerms []crossTerm
	// spread is the plugin PodTopologySpread; nil where the profile lacks it.
	spread fwk.PreFilterPlugin
	// err has the errors of plugins; the decision is worthless then.
	err error
}

// oracleClass is one class as the filters see it.
type oracleClass struct {
	pods  []fwk.PodInfo
	state fwk.CycleState
	// stateful is true where other pods matter to the class by more than their room.
	stateful bool
	// static are the filters that look only at the pod and the node object.
	static []fwk.FilterPlugin
	// rejected says why PreFilter rejects the class on every node; "" where it does not.
	rejected string
	// only are the nodes that PreFilter confines the class to, nil for all.
	only sets.Set[string]
	// barred says why extenders keep the class from nodes, by name.
	barred map[string]string
	// members are copies of the pods that stand on nodes in the simulated state: the first placed ones.
	members []fwk.PodInfo
	placed  int
	// spreads are the class's own topology spread constraints. The profile's default ones bind it where defaultSpread is
	// true; they are stale where their counts are to be taken anew from the simulated state.
	spreads              []*spreadRule
	defaultSpread, stale bool
	minds                minds
	// claims are the filters for what members claim, claimed what placed members have been reserved, by place. They are to
	// look again where claimsStale is true.
	claims      []claimPlugin
	claimed     []*claimed
	claimsStale bool
	// shared are those that members of the class share.
	shared []*sharedClaim
}

var _ core.Oracle = (*Oracle)(nil)

// NewOracle runs PreFilter for one member of each class, on cycle states that [Simulates] tells from those of scheduling
// cycles, and asks the extenders that filter. The classes are those that the preemptor's were described from. The error
// is that of a plugin or an extender.
func NewOracle(ctx context.Context, profile framework.Framework, view *snapshot.View, preemptor *core.Preemptor, classes []snapshot.Class) (*Oracle, error) {
	o, err := oracleOf(ctx, profile, view, preemptor, classes)
	if err != nil {
		return nil, err
	}
	o.findPromisedTerms()
	o.findExclusive()
	for i := range o.classes {
		if oc := &o.classes[i]; oc.rejected == "" {
			if err := o.askFilters(oc); err != nil {
				return nil, err
			}
		}
	}
	if !o.podSensitive {
		return o, o.err
	}
	if o.mindsPromised() {
		if o.before, err = oracleOf(ctx, profile, view, preemptor, classes); err != nil {
			return nil, err
		}
		o.before.leaveClaims()
	}
	o.addPromised()
	return o, o.err
}

// oracleOf is the Oracle without what has been promised, and without the extenders.
func oracleOf(ctx context.Context, profile framework.Framework, view *snapshot.View, preemptor *core.Preemptor, classes []snapshot.Class) (*Oracle, error) {
	o := &Oracle{
		ctx: ctx, logger: klog.FromContext(ctx), profile: profile, view: view, preemptor: preemptor,
		classes:   make([]oracleClass, len(classes)),
		simulated: make(map[int]fwk.NodeInfo), domains: make(map[string][]int32), namespaces: make(map[string]labels.Set),
		touching: make([]touch, len(view.Cluster.Units)),
		spread:   preFilterOf(profile, names.PodTopologySpread),
	}
	for i := range classes {
		oc := &o.classes[i]
		oc.pods = slices.Clone(classes[i].Pods)
		oc.state = framework.NewCycleState()
		oc.state.Write(simulationKey, simulation{})
		result, status, _ := profile.RunPreFilterPlugins(ctx, oc.state, oc.pods[0].GetPod())
		switch {
		case status.Code() == fwk.UnschedulableAndUnresolvable:
			oc.rejected = status.Message()
			continue
		case !status.IsSuccess() && !status.IsRejected():
			return nil, fmt.Errorf("run PreFilter for pod %s: %w", klog.KObj(oc.pods[0].GetPod()), status.AsError())
		}
		if !result.AllNodes() {
			oc.only = result.NodeNames
		}
		oc.stateful, oc.minds.everything = !status.IsSuccess(), !status.IsSuccess()
		oc.sortFilters(profile)
		if err := o.takeOver(oc); err != nil {
			return nil, err
		}
		o.podSensitive = o.podSensitive || oc.stateful
	}
	o.findCrossTerms()
	o.findShared()
	o.findSharedDevices()
	return o, o.err
}

// PodSensitive reports whether other pods, volumes or devices matter to some class by more than the room that they occupy. Of one that
// no node is asked about, because it has been refused before, it is taken that they do.
func (o *Oracle) PodSensitive() bool {
	return o.podSensitive || slices.ContainsFunc(o.classes, func(oc oracleClass) bool { return oc.rejected != "" })
}

// preFilterOf finds a plugin of the profile by its name; nil where there is none. Plugins that register for
// events are the ones that a framework shows.
func preFilterOf(profile framework.Framework, name string) fwk.PreFilterPlugin {
	for _, ext := range profile.EnqueueExtensions() {
		if pl, ok := ext.(fwk.PreFilterPlugin); ok && pl.Name() == name {
			return pl
		}
	}
	return nil
}

// sortFilters tells the filters apart that are not skipped for the class: static ones look only at the pod and
// the node object, and all but the one for resources look at the pods of a node beyond the room they occupy.
// Filters that are not known here are taken to do so.
func (oc *oracleClass) sortFilters(profile framework.Framework) {
	skipped := oc.state.GetSkipFilterPlugins()
	static := make(map[string]fwk.FilterPlugin)
	for _, ext := range profile.EnqueueExtensions() {
		if pl, ok := ext.(fwk.FilterPlugin); ok && isStaticFilter(pl.Name()) {
			static[pl.Name()] = pl
		}
	}
	for _, pl := range profile.ListPlugins().Filter.Enabled {
		filter, isStatic := static[pl.Name]
		switch {
		case skipped.Has(pl.Name) || pl.Name == names.NodeResourcesFit:
		case isStatic:
			oc.static = append(oc.static, filter)
		default:
			oc.stateful = true
			oc.minds.mind(pl.Name)
		}
	}
}

// isStaticFilter names the in-tree filters that look only at the pod and the node object.
func isStaticFilter(name string) bool {
	switch name {
	case names.NodeName, names.NodeUnschedulable, names.NodeAffinity, names.TaintToleration,
		names.NodeDeclaredFeatures:
		return true
	default:
		return false
	}
}

// takeOver has the core and this package do for a class what takes filters long: room, which is arithmetic, and spread.
func (o *Oracle) takeOver(oc *oracleClass) error {
	skipped := oc.state.GetSkipFilterPlugins().Union(sets.New(names.NodeResourcesFit))
	if o.spread != nil && !skipped.Has(names.PodTopologySpread) {
		pod := oc.pods[0].GetPod()
		rules, err := o.spreadRules(pod)
		if err != nil {
			return err
		}
		if oc.spreads = rules; len(rules) > 0 {
			skipped.Insert(names.PodTopologySpread)
		} else {
			oc.defaultSpread, oc.minds.everything = true, true
		}
	}
	oc.state.SetSkipFilterPlugins(skipped)
	for _, pl := range claimPlugins(o.profile) {
		if !skipped.Has(pl.Name()) {
			oc.claims = append(oc.claims, pl)
		}
	}
	return nil
}

// Admits asks the filters that look only at the pod and the node, so that none that eviction can satisfy hides
// one that it cannot.
func (o *Oracle) Admits(c, n int) string {
	oc := &o.classes[c]
	if oc.rejected != "" {
		return oc.rejected
	}
	info := o.view.NodeInfo(n)
	if oc.only != nil && !oc.only.Has(info.Node().Name) {
		return "node(s) didn't match what the pod is confined to"
	}
	if why := oc.barred[info.Node().Name]; why != "" {
		return why
	}
	for _, pl := range oc.static {
		status := pl.Filter(o.ctx, oc.state, oc.pods[0].GetPod(), info)
		switch {
		case status.IsSuccess():
		case status.IsRejected():
			return status.Message()
		default:
			o.fail(status.AsError())
			return status.Message()
		}
	}
	return ""
}

// Stateful reports whether room is not all that matters to the class.
func (o *Oracle) Stateful(c int) bool { return o.classes[c].stateful }

// Fits runs the filters on the node in the simulated state.
func (o *Oracle) Fits(c, n int) bool {
	oc := &o.classes[c]
	info, ok := o.simulated[n]
	if !ok {
		info = o.view.NodeInfo(n)
	}
	if o.violatesCrossTerm(c, info) {
		return false
	}
	for _, r := range oc.spreads {
		if d := r.domains[n]; d < 0 || !r.Takes(d) {
			return false
		}
	}
	o.claimPromised(oc, n)
	if !oc.sharesOn(n) || oc.claimsStale && !o.lookAtClaims(oc) {
		return false
	}
	if oc.defaultSpread && oc.stale {
		o.countSpread(oc)
	}
	status := o.profile.RunFilterPlugins(o.ctx, oc.state, oc.claimant(), info)
	if !status.IsSuccess() && !status.IsRejected() {
		o.fail(status.AsError())
	}
	return status.IsSuccess()
}

// countSpread has PodTopologySpread count the pods of the simulated state for its default constraints. Its own bookkeeping of added and
// removed pods is exact for one node only: it keeps the two smallest domains, not all.
func (o *Oracle) countSpread(oc *oracleClass) {
	infos := make([]fwk.NodeInfo, 0, len(o.view.Cluster.Nodes))
	for n := range o.view.Cluster.Nodes {
		if info, ok := o.simulated[n]; ok {
			infos = append(infos, info)
		} else if info := o.view.NodeInfo(n); info != nil {
			infos = append(infos, info)
		}
	}
	_, status := o.spread.PreFilter(o.ctx, oc.state, oc.pods[0].GetPod(), infos)
	if !status.IsSuccess() {
		o.fail(status.AsError())
	}
	oc.stale = false
}

// fail notes an error of a plugin.
func (o *Oracle) fail(err error) { o.err = errors.Join(o.err, err) }
