package core

import "slices"

// Role is a member's role in its gang, such as head or worker. Members can replace only members of
// the same role.
type Role struct {
	// Name identifies the role within the gang.
	Name string
	// Needs is the number of members of the role that the gang needs.
	Needs int32
}

// Headcount counts the members of one gang, in total and by role. The zero value is a count of 0.
//
// Headcount defines which members are surplus. Protections, the order of victims and the checks
// before an eviction use it.
type Headcount struct {
	members int
	roles   []roleCount
}

// roleCount counts the members of one role.
type roleCount struct {
	role    Role
	members int
}

// Add adds a number of members to a role. The role is nil in a gang without roles. A negative
// number subtracts members. With 0, Add only registers the role.
func (h *Headcount) Add(role *Role, members int) {
	h.members += members
	if role == nil {
		return
	}
	i := h.find(role)
	if i < 0 {
		i = len(h.roles)
		h.roles = append(h.roles, roleCount{role: *role})
	}
	h.roles[i].members += members
}

func (h *Headcount) find(role *Role) int {
	return slices.IndexFunc(h.roles, func(c roleCount) bool { return c.role.Name == role.Name })
}

// Spare returns the number of members of a role that the gang can lose without falling below
// minCount or below the needs of the role. A negative result is the number of missing members.
func (h *Headcount) Spare(minCount int, role *Role) int {
	spare := h.members - minCount
	if role == nil {
		return spare
	}
	have := 0
	if i := h.find(role); i >= 0 {
		have = h.roles[i].members
	}
	return min(spare, have-int(role.Needs))
}

// IsWhole reports whether the gang has at least minCount members, and the needed number of each
// registered role.
func (h *Headcount) IsWhole(minCount int) bool {
	return h.members >= minCount && !slices.ContainsFunc(h.roles, func(c roleCount) bool { return c.members < int(c.role.Needs) })
}

// clone returns an independent copy.
func (h *Headcount) clone() Headcount {
	return Headcount{members: h.members, roles: slices.Clone(h.roles)}
}
