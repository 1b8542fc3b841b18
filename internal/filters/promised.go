package filters

import (
	"errors"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// eitherWay answers for two states of the cluster: with and without the pods that have reservations
// on their nodes. When the victims have terminated, these pods may be on their nodes or not. If a
// member fits in only one state, its filters might reject it in the other state, and its room would
// stay empty. For the same reason, kube-scheduler runs the filters twice if pods are nominated to a
// node.
type eitherWay struct{ *Oracle }

var _ core.Oracle = eitherWay{}

// asked returns the Oracle to pass to the core: eitherWay if pods with reservations affect the
// filters.
func (o *Oracle) asked() core.Oracle {
	if o.before == nil {
		return o
	}
	return eitherWay{o}
}

// failure returns the errors of plugins, of both states.
func (o *Oracle) failure() error {
	if o.before == nil {
		return o.err
	}
	return errors.Join(o.err, o.before.err)
}

// Fits reports whether one more member of the class fits in both states.
func (e eitherWay) Fits(c, n int) bool { return e.Oracle.Fits(c, n) && e.before.Fits(c, n) }

// RemoveUnit removes a unit's pods from both states.
func (e eitherWay) RemoveUnit(unit int) {
	e.Oracle.RemoveUnit(unit)
	e.before.RemoveUnit(unit)
}

// RestoreUnit undoes RemoveUnit in both states.
func (e eitherWay) RestoreUnit(unit int) {
	e.Oracle.RestoreUnit(unit)
	e.before.RestoreUnit(unit)
}

// RemoveLeaving removes a terminating pod from both states.
func (e eitherWay) RemoveLeaving(pod int) {
	e.Oracle.RemoveLeaving(pod)
	e.before.RemoveLeaving(pod)
}

// RestoreLeaving undoes RemoveLeaving in both states.
func (e eitherWay) RestoreLeaving(pod int) {
	e.Oracle.RestoreLeaving(pod)
	e.before.RestoreLeaving(pod)
}

// Place adds the next member of the class to the node in both states.
func (e eitherWay) Place(c, n int) {
	e.Oracle.Place(c, n)
	e.before.Place(c, n)
}

// Unplace undoes one call of Place in both states.
func (e eitherWay) Unplace(c, n int) {
	e.Oracle.Unplace(c, n)
	e.before.Unplace(c, n)
}

// mindsPromised reports whether any class depends on a pod with a reservation by more than the
// pod's room.
func (o *Oracle) mindsPromised() bool {
	minds := false
	o.eachPromised(func(_ int, pi fwk.PodInfo) { minds = minds || o.matters(pi) })
	return minds
}

// addPromised adds the pods with reservations to the simulated state.
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

// leaveClaims disables the claim filters of o, which is the Oracle without reservations. A claim
// can be reserved only once, so only the Oracle with reservations reserves claims.
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
