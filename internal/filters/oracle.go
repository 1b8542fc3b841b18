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

// Oracle is the [core.Oracle] for one preemptor. It uses the Filter plugins of a profile and the
// extenders. Its simulated state consists of copies of the NodeInfos that the core changes, and of
// one cycle state per class. The plugins' PreFilter extensions keep the cycle states up to date. If
// all classes depend only on room, there is no simulated state. An Oracle belongs to the scheduling
// cycle that created it, and is valid as long as its View.
type Oracle struct {
	ctx     context.Context
	logger  klog.Logger
	profile framework.Framework
	view    *snapshot.View
	// preemptor is the preemptor that the core decides for.
	preemptor *core.Preemptor
	classes   []oracleClass
	// podSensitive is true if any class needs the simulated state.
	podSensitive bool
	// simulated has the copies of the nodes that were changed, by index in View.Cluster.Nodes.
	simulated map[int]fwk.NodeInfo
	// domains has the domain of each node, by topology key. namespaces has the labels of
	// namespaces, by name. touching has the cached results of Touches, by unit. All three are
	// filled on demand.
	domains    map[string][]int32
	namespaces map[string]labels.Set
	touching   []touch
	// before is an Oracle for the same preemptor, without the pods that have reservations. It is
	// nil if these pods affect no filter of the preemptor.
	before *Oracle
	// users has the classes of the members that use a volume claim, by the claim's name. A class
	// occurs once for each of these members.
	users map[string][]int
	// held has the claims shared by several members, while at least one of these members is placed.
	held map[string]*heldClaim
	// promised has the claims that are reserved for pods with reservations, by node.
	promised map[int][]*claimed
	// promisedClaims are the claimPlugins of the profile; nil until they are needed.
	promisedClaims []claimPlugin
	// crossTerms are the anti-affinity terms between classes that no filter sees.
	crossTerms []crossTerm
	// spread is the plugin PodTopologySpread; nil if the profile does not enable it.
	spread fwk.PreFilterPlugin
	// err has the errors of plugins. If it is not nil, the decision is not valid.
	err error
}

// oracleClass is one class of members, with the data for its filters.
type oracleClass struct {
	pods  []fwk.PodInfo
	state fwk.CycleState
	// stateful is true if the class depends on other pods by more than their room.
	stateful bool
	// static are the filters that depend only on the pod and the node object.
	static []fwk.FilterPlugin
	// rejected is the reason why PreFilter rejects the class on all nodes; "" if it does not.
	rejected string
	// only are the names of the nodes that PreFilter limits the class to; nil for all nodes.
	only sets.Set[string]
	// barred has the reasons why extenders exclude nodes for the class, by node name.
	barred map[string]string
	// members are copies of the class's pods for the simulated state. The placed members come
	// first; placed is their number.
	members []fwk.PodInfo
	placed  int
	// spreads are the class's own topology spread constraints. defaultSpread is true if the
	// profile's default constraints apply instead. stale is true if the counts of pods for the
	// default constraints are outdated.
	spreads              []*spreadRule
	defaultSpread, stale bool
	minds                minds
	// claims are the filters for the class's claims.
	claims []claimPlugin
	// claimed has the reserved claims of each placed member, with the same indexes as members.
	claimed []*claimed
	// claimsStale is true if PreFilter of the filters in claims must run again.
	claimsStale bool
	// shared are the claims that members of the class share, with each other or with other classes.
	shared []*sharedClaim
}

var (
	_ core.Oracle   = (*Oracle)(nil)
	_ core.Replacer = (*Oracle)(nil)
)

// NewOracle runs PreFilter for one member of each class, and calls the extenders that filter. For
// its cycle states, [Simulates] returns true. classes must be the classes that preemptor was
// created from. It returns an error if a plugin or an extender fails.
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

// oracleOf returns an Oracle that ignores pods with reservations and extenders.
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

// PodSensitive reports whether any class depends on other pods, volumes or devices by more than
// their room. It is also true if PreFilter rejected a class, because the reason is then not known.
func (o *Oracle) PodSensitive() bool {
	return o.podSensitive || slices.ContainsFunc(o.classes, func(oc oracleClass) bool { return oc.rejected != "" })
}

// preFilterOf returns the plugin of the profile with the given name; nil if there is none. It finds
// only plugins that register for events, because a framework exposes no others.
func preFilterOf(profile framework.Framework, name string) fwk.PreFilterPlugin {
	for _, ext := range profile.EnqueueExtensions() {
		if pl, ok := ext.(fwk.PreFilterPlugin); ok && pl.Name() == name {
			return pl
		}
	}
	return nil
}

// sortFilters divides the enabled filters of the class. Static filters depend only on the pod and
// the node object. All others, except NodeResourcesFit, also depend on other pods, and make the
// class stateful. Unknown filters count as filters that depend on other pods.
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

// isStaticFilter reports whether an in-tree filter depends only on the pod and the node object.
func isStaticFilter(name string) bool {
	switch name {
	case names.NodeName, names.NodeUnschedulable, names.NodeAffinity, names.TaintToleration,
		names.NodeDeclaredFeatures:
		return true
	default:
		return false
	}
}

// takeOver disables slow filters that the core and this package replace: NodeResourcesFit and
// PodTopologySpread.
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

// Admits returns the reason why a node cannot admit the class, regardless of evictions; "" if there
// is none. It runs only filters that depend on the pod and the node object. So it ignores
// rejections that evictions can resolve.
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

// Replacement returns whether a controller creates the pods of a unit again after their eviction.
func (o *Oracle) Replacement(unit int) core.Replacement { return o.view.Replacement(unit) }

// Stateful reports whether the class depends on other pods by more than their room.
func (o *Oracle) Stateful(c int) bool { return o.classes[c].stateful }

// Fits reports whether one more member of class c passes all filters on node n, in the simulated
// state.
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

// countSpread runs PreFilter of PodTopologySpread again, with the pods of the simulated state. It
// is for the default constraints. The plugin's own updates after changes are exact only for one
// node, because it keeps only the two smallest domains.
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

// fail records an error of a plugin.
func (o *Oracle) fail(err error) { o.err = errors.Join(o.err, err) }
