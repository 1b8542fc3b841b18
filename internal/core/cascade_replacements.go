package core

import "slices"

// replacements returns the workloads that controllers create in place of the victims, ordered by
// the importance of the victims. All evicted members of one gang form one replacement. The
// replacement's MinCount is the number of members that the gang then lacks to reach the gang's
// minCount. For further members, the replacement preempts nothing. A group that is evicted as a
// unit needs all of its pods.
func (a *aftermath) replacements(victims []int32) []*Preemptor {
	replacer, ok := a.whole.v.oracle.(Replacer)
	if !ok {
		return nil
	}
	var out []*Preemptor
	gangs := make(map[string]*Preemptor)
	for _, u := range victims {
		kind, unit := replacer.Replacement(int(u)), &a.s.Units[u]
		if kind == NoReplacement {
			continue
		}
		if p := gangs[unit.PodGroup]; p != nil && elastic(unit) {
			p.Never = p.Never || kind == ReplacementWaits
			p.join(unit)
			continue
		}
		p := a.replacementOf(unit)
		p.Never = kind == ReplacementWaits
		p.join(unit)
		if elastic(unit) {
			gangs[unit.PodGroup] = p
		}
		out = append(out, p)
	}
	for uid, p := range gangs {
		p.MinCount = min(max(p.MinCount-len(a.c.ofPodGroup(&a.s, uid)), 0), p.memberCount())
	}
	return out
}

// replacementOf returns the preemptor that replaces a unit, without members. The scheduler profile
// of the replacement is not known, so the settings of the original preemptor's profile apply.
func (a *aftermath) replacementOf(unit *Unit) *Preemptor {
	by := a.whole.p
	p := &Preemptor{
		Namespace: unit.Namespace, Name: unit.Name, UID: unit.UID, Gang: unit.Group,
		Priority: int32(int64(unit.OwnPriority()) - unit.RaisedBy), Queue: unit.queue(), PodGroup: unit.PodGroup, MinCount: len(unit.Pods),
		IgnoresTolerations: by.IgnoresTolerations, Now: by.Now, MinRuntime: by.MinRuntime,
		Order: by.Order, CountsStops: by.CountsStops, Bands: by.Bands, Devices: by.Devices, Restart: by.Restart, Step: by.Step, PodCost: by.PodCost,
		Limits: by.Limits,
	}
	if elastic(unit) {
		p.Gang, p.Name, p.UID, p.MinCount = true, unit.GroupName, unit.PodGroup, int(unit.Membership.MinCount)
	}
	return p
}

// join adds the pods of a unit to the preemptor as members.
func (p *Preemptor) join(unit *Unit) {
	role, rank := "", p.memberCount()
	if unit.Role != nil {
		role = unit.Role.Name
	}
	for i := range unit.Pods {
		pod := &unit.Pods[i]
		request := slices.Clone(pod.Request)
		for r := range request {
			request[r] = max(request[r], 0)
		}
		at := slices.IndexFunc(p.Classes, func(c Class) bool { return c.Role == role && slices.Equal(c.Request, request) })
		if at < 0 {
			at = len(p.Classes)
			p.Classes = append(p.Classes, Class{Role: role, Request: request})
		}
		p.Classes[at].Members = append(p.Classes[at].Members, Member{Name: pod.Name, UID: pod.UID, Rank: rank + i})
	}
}

func (p *Preemptor) memberCount() (members int) {
	for c := range p.Classes {
		members += len(p.Classes[c].Members)
	}
	return members
}

// asksLike reports whether p and o are single pods with equal needs, so that Decide returns the
// same result for both in the same cluster.
func (p *Preemptor) asksLike(o *Preemptor) bool {
	return !p.Gang && !o.Gang && p.PodGroup == "" && o.PodGroup == "" &&
		p.Priority == o.Priority && p.Never == o.Never && p.Queue == o.Queue && slices.Equal(p.Classes[0].Request, o.Classes[0].Request)
}
