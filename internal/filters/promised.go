package filters

import (
	"errors"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// eitherWay answers for two states of the cluster: with the pods on their nodes to which the preemptor has to leave room, and
// without them. When its victims have gone they may be there or not, and may never come. A member that only fits beside
// them, or only without them, would have its room stand empty, as kube-scheduler does not place it before that changes
// (it asks the filters twice for the same reason, about the pods that are nominated to the node at hand).
type eitherWay struct{ *Oracle }

var _ core.Oracle = eitherWay{}

// asked is the Oracle that the core is given.
func (o *Oracle) asked() core.Oracle {
	if o.before == nil {
		return o
	}
	return eitherWay{o}
}

// failure is the error of any plugin that was asked.
func (o *Oracle) failure() error {
	if o.before == nil {
		return o.err
	}
	return errors.Join(o.err, o.before.err)
}

// Fits reports whether one more member fits in both states.
func (e eitherWay) Fits(c, n int) bool { return e.Oracle.Fits(c, n) && e.before.Fits(c, n) }

// RemoveUnit takes a unit's pods out of both states.
func (e eitherWay) RemoveUnit(unit int) {
	e.Oracle.RemoveUnit(unit)
	e.before.RemoveUnit(unit)
}

// RestoreUnit puts a unit's pods back.
func (e eitherWay) RestoreUnit(unit int) {
	e.Oracle.RestoreUnit(unit)
	e.before.RestoreUnit(unit)
}

// RemoveLeaving takes a terminating pod out of both states.
func (e eitherWay) RemoveLeaving(pod int) {
	e.Oracle.RemoveLeaving(pod)
	e.before.RemoveLeaving(pod)
}

// RestoreLeaving puts a terminating pod back.
func (e eitherWay) RestoreLeaving(pod int) {
	e.Oracle.RestoreLeaving(pod)
	e.before.RestoreLeaving(pod)
}

// Place adds the next member of the class to the node in both states.
func (e eitherWay) Place(c, n int) {
	e.Oracle.Place(c, n)
	e.before.Place(c, n)
}

// Unplace takes a member of the class off the node again.
func (e eitherWay) Unplace(c, n int) {
	e.Oracle.Unplace(c, n)
	e.before.Unplace(c, n)
}

// mindsPromised reports whether any of the promised pods matters to some class by more than its room.
func (o *Oracle) mindsPromised() bool {
	minds := false
	o.eachPromised(func(_ int, pi fwk.PodInfo) { minds = minds || o.matters(pi) })
	return minds
}

// addPromised adds the pods to which the preemptor has to leave room to the simulated state.
func (o *Oracle) addPromised() { o.eachPromised(o.add) }

func (o *Oracle) eachPromised(visit func(n int, pi fwk.PodInfo)) {
	if !o.view.HasPromised() {
		return
	}
	for n := range o.view.Cluster.Nodes {
		for _, pi := range o.view.Promised(o.view.Cluster.Nodes[n].Name) {
			visit(n, pi)
		}
	}
}

// leaveClaims leaves the filters for what members claim to the Oracle that knows of the promised pods: what one member is reserved,
// the other cannot be as well.
func (o *Oracle) leaveClaims() {
	for i := range o.classes {
		oc := &o.classes[i]
		if oc.rejected != "" {
			continue
		}
		skipped := oc.state.GetSkipFilterPlugins().Clone()
		for _, pl := range oc.claims {
			skipped.Insert(pl.Name())
		}
		oc.state.SetSkipFilterPlugins(skipped)
		oc.claims, oc.shared = nil, nil
	}
}
