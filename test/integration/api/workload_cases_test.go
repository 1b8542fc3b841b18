package api

import (
	"fmt"
	"maps"
	"strings"
)

func workloadCases() map[string]validationCase {
	const first = "spec.podGroupTemplates[0]"
	template := func(policy string) string {
		return `{podGroupTemplates: [` + strings.Replace(policy, "{", "{name: a, ", 1) + `]}`
	}
	cases := policyCases(first, template)
	maps.Copy(cases, parentCases(first, template))
	for title, tc := range map[string]validationCase{
		"no schedulingPolicy": {
			create: `{podGroupTemplates: [{name: a}]}`,
			want:   `spec.podGroupTemplates[0].schedulingPolicy: Required value: a template needs one`,
		},
		"no templates": {
			create: `{}`,
			want:   incomplete(`spec.podGroupTemplates: Required value`),
		},
		"0 templates": {
			create: `{podGroupTemplates: []}`,
			want:   `spec.podGroupTemplates: Invalid value: 0: spec.podGroupTemplates in body should have at least 1 items`,
		},
		"8 templates": {
			create: templates(8),
		},
		"9 templates": {
			create: templates(9),
			want:   incomplete(`spec.podGroupTemplates: Too many: 9: must have at most 8 items`),
		},
		"same name twice": {
			create: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}}, {name: a, schedulingPolicy: {gang: {minCount: 2}}}]}`,
			want:   `spec.podGroupTemplates[1]: Duplicate value: {"name":"a"}`,
		},
		"no name": {
			create: `{podGroupTemplates: [{schedulingPolicy: {basic: {}}}]}`,
			want:   incomplete(`spec.podGroupTemplates[0].name: Required value`),
		},
		"name no DNS label": {
			create: `{podGroupTemplates: [{name: A_b, schedulingPolicy: {basic: {}}}]}`,
			want:   `spec.podGroupTemplates[0].name: Invalid value: "A_b": spec.podGroupTemplates[0].name in body should match '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'`,
		},
		"no spec": {
			want: incomplete(`spec: Required value`),
		},
		"name empty": {
			create: `{podGroupTemplates: [{name: "", schedulingPolicy: {basic: {}}}]}`,
			want:   tooShort("spec.podGroupTemplates[0].name"),
		},
		"name as long as any": {
			create: `{podGroupTemplates: [{name: ` + letters(63) + `, schedulingPolicy: {basic: {}}}]}`,
		},
		"name too long": {
			create: `{podGroupTemplates: [{name: ` + letters(64) + `, schedulingPolicy: {basic: {}}}]}`,
			want:   tooLong("spec.podGroupTemplates[0].name", 63),
		},
		"controllerRef without a kind": {
			create: controlledBy(`{name: j}`),
			want:   incomplete(`spec.controllerRef.kind: Required value`),
		},
		"controllerRef of one letter each": {
			create: controlledBy(`{apiGroup: a, kind: J, name: j}`),
		},
		"controllerRef of the core group": {
			create: controlledBy(`{apiGroup: "", kind: ReplicationController, name: j}`),
		},
		"controllerRef as long as any": {
			create: controlledBy(`{apiGroup: ` + letters(253) + `, kind: ` + letters(63) + `, name: ` + letters(253) + `}`),
		},
		"controllerRef with an empty kind": {
			create: controlledBy(`{kind: "", name: j}`),
			want:   tooShort("spec.controllerRef.kind"),
		},
		"controllerRef with an empty name": {
			create: controlledBy(`{kind: Job, name: ""}`),
			want:   tooShort("spec.controllerRef.name"),
		},
		"controllerRef, apiGroup too long": {
			create: controlledBy(`{apiGroup: ` + letters(254) + `, kind: Job, name: j}`),
			want:   tooLong("spec.controllerRef.apiGroup", 253),
		},
		"controllerRef, kind too long": {
			create: controlledBy(`{kind: ` + letters(64) + `, name: j}`),
			want:   tooLong("spec.controllerRef.kind", 63),
		},
		"controllerRef, name too long": {
			create: controlledBy(`{kind: Job, name: ` + letters(254) + `}`),
			want:   tooLong("spec.controllerRef.name", 253),
		},
		"controllerRef without a name": {
			create: `{controllerRef: {apiGroup: batch, kind: Job}, podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}}]}`,
			want:   incomplete(`spec.controllerRef.name: Required value`),
		},

		"nothing changed": {
			create: `{controllerRef: {apiGroup: batch, kind: Job, name: j}, podGroupTemplates: [{name: a, schedulingPolicy: {gang: {minCount: 2}}, priorityClassName: high}]}`,
			update: `{controllerRef: {apiGroup: batch, kind: Job, name: j}, podGroupTemplates: [{name: a, schedulingPolicy: {gang: {minCount: 2}}, priorityClassName: high}]}`,
		},
		"controllerRef changed": {
			create: `{controllerRef: {kind: Job, name: j}, podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}}]}`,
			update: `{controllerRef: {kind: Job, name: k}, podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}}]}`,
			want:   `spec.controllerRef: Forbidden: field is immutable after creation`,
		},
		"controllerRef removed": {
			create: `{controllerRef: {kind: Job, name: j}, podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}}]}`,
			update: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}}]}`,
			want:   `spec.controllerRef: Forbidden: field is immutable after creation`,
		},
		"controllerRef set later": {
			create: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}}]}`,
			update: `{controllerRef: {kind: Job, name: j}, podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}}]}`,
			want:   `spec.controllerRef: Forbidden: field is immutable after creation`,
		},
		"template added": {
			create: templates(1),
			update: templates(2),
			want:   `spec.podGroupTemplates: Forbidden: templates cannot be added, removed or renamed after creation`,
		},
		"template removed": {
			create: templates(2),
			update: templates(1),
			want:   `spec.podGroupTemplates: Forbidden: templates cannot be added, removed or renamed after creation`,
		},
		"template renamed": {
			create: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}}]}`,
			update: `{podGroupTemplates: [{name: b, schedulingPolicy: {basic: {}}}]}`,
			want:   `spec.podGroupTemplates: Forbidden: templates cannot be added, removed or renamed after creation`,
		},
		"schedulingPolicy changed": {
			create: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}}, {name: b, schedulingPolicy: {gang: {minCount: 2}}}]}`,
			update: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}}, {name: b, schedulingPolicy: {gang: {minCount: 3}}}]}`,
			want:   `spec.podGroupTemplates[1].schedulingPolicy: Forbidden: field is immutable after creation`,
		},
		"schedulingPolicy removed": {
			create: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}}]}`,
			update: `{podGroupTemplates: [{name: a}]}`,
			want: `[spec.podGroupTemplates[0].schedulingPolicy: Required value: a template needs one, ` +
				`spec.podGroupTemplates[0].schedulingPolicy: Forbidden: field is immutable after creation]`,
		},
		"disruptionMode changed": {
			create: `{podGroupTemplates: [{name: a, schedulingPolicy: {gang: {minCount: 2}}, disruptionMode: Pod}]}`,
			update: `{podGroupTemplates: [{name: a, schedulingPolicy: {gang: {minCount: 2}}, disruptionMode: PodGroup}]}`,
			want:   `spec.podGroupTemplates[0].disruptionMode: Forbidden: field is immutable after creation`,
		},
		"disruptionMode removed": {
			create: `{podGroupTemplates: [{name: a, schedulingPolicy: {gang: {minCount: 2}}, disruptionMode: Pod}]}`,
			update: `{podGroupTemplates: [{name: a, schedulingPolicy: {gang: {minCount: 2}}}]}`,
			want:   `spec.podGroupTemplates[0].disruptionMode: Forbidden: field is immutable after creation`,
		},
		"disruptionMode set later": {
			create: `{podGroupTemplates: [{name: a, schedulingPolicy: {gang: {minCount: 2}}}]}`,
			update: `{podGroupTemplates: [{name: a, schedulingPolicy: {gang: {minCount: 2}}, disruptionMode: Pod}]}`,
			want:   `spec.podGroupTemplates[0].disruptionMode: Forbidden: field is immutable after creation`,
		},
		"priorityClassName changed": {
			create: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}, priorityClassName: low}]}`,
			update: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}, priorityClassName: high}]}`,
			want:   `spec.podGroupTemplates[0].priorityClassName: Forbidden: field is immutable after creation`,
		},
		"priorityClassName removed": {
			create: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}, priorityClassName: low}]}`,
			update: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}}]}`,
			want:   `spec.podGroupTemplates[0].priorityClassName: Forbidden: field is immutable after creation`,
		},
		"priorityClassName set later": {
			create: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}}]}`,
			update: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}, priorityClassName: low}]}`,
			want:   `spec.podGroupTemplates[0].priorityClassName: Forbidden: field is immutable after creation`,
		},
		"priorityClassName filled in with the priority": {
			create: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}}]}`,
			update: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}, priorityClassName: low, priority: 33}]}`,
		},
		"priorityClassName set once the priority is filled in": {
			create: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}, priority: 33}]}`,
			update: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}, priorityClassName: low, priority: 33}]}`,
			want:   `spec.podGroupTemplates[0].priorityClassName: Forbidden: field is immutable after creation`,
		},
		"topology removed": {
			create: `{podGroupTemplates: [{name: a, schedulingPolicy: {gang: {minCount: 2}}, schedulingConstraints: {topology: [{key: rack}]}}]}`,
			update: `{podGroupTemplates: [{name: a, schedulingPolicy: {gang: {minCount: 2}}}]}`,
			want:   `spec.podGroupTemplates[0].schedulingConstraints: Forbidden: field is immutable after creation`,
		},
		"topology changed": {
			create: `{podGroupTemplates: [{name: a, schedulingPolicy: {gang: {minCount: 2}}, schedulingConstraints: {topology: [{key: rack}]}}]}`,
			update: `{podGroupTemplates: [{name: a, schedulingPolicy: {gang: {minCount: 2}}, schedulingConstraints: {topology: [{key: zone}]}}]}`,
			want:   `spec.podGroupTemplates[0].schedulingConstraints: Forbidden: field is immutable after creation`,
		},
		"topology unchanged": {
			create: `{podGroupTemplates: [{name: a, schedulingPolicy: {gang: {minCount: 2}}, schedulingConstraints: {topology: [{key: rack}]}}]}`,
			update: `{podGroupTemplates: [{name: a, schedulingPolicy: {gang: {minCount: 2}}, schedulingConstraints: {topology: [{key: rack}]}, priority: 3}]}`,
		},
		"queueName removed": {
			create: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}, queueName: q}]}`,
			update: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}}]}`,
			want:   `spec.podGroupTemplates[0].queueName: Forbidden: field is immutable after creation`,
		},
		"queueName set later": {
			create: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}}]}`,
			update: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}, queueName: q}]}`,
			want:   `spec.podGroupTemplates[0].queueName: Forbidden: field is immutable after creation`,
		},
		"queueName changed": {
			create: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}, queueName: q}]}`,
			update: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}, queueName: r}]}`,
			want:   `spec.podGroupTemplates[0].queueName: Forbidden: field is immutable after creation`,
		},
		"priority filled in": {
			create: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}}, {name: b, schedulingPolicy: {basic: {}}, priority: 7}]}`,
			update: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}, priority: 0}, {name: b, schedulingPolicy: {basic: {}}, priority: 7}]}`,
		},
		"priority changed": {
			create: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}, priority: 0}]}`,
			update: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}, priority: 7}]}`,
			want:   `spec.podGroupTemplates[0].priority: Forbidden: field is immutable once it is filled in`,
		},
		"priority removed": {
			create: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}, priority: 0}]}`,
			update: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}}]}`,
			want:   `spec.podGroupTemplates[0].priority: Forbidden: field is immutable once it is filled in`,
		},
		"preemptionPolicy filled in": {
			create: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}, priority: 0}]}`,
			update: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}, priority: 0, preemptionPolicy: Never}]}`,
		},
		"preemptionPolicy removed": {
			create: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}, preemptionPolicy: Never}]}`,
			update: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}}]}`,
			want:   `spec.podGroupTemplates[0].preemptionPolicy: Forbidden: field is immutable once it is filled in`,
		},
		"preemptionPolicy changed": {
			create: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}, preemptionPolicy: Never}]}`,
			update: `{podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}, preemptionPolicy: PreemptLowerPriority}]}`,
			want:   `spec.podGroupTemplates[0].preemptionPolicy: Forbidden: field is immutable once it is filled in`,
		},
	} {
		cases[title] = tc
	}
	return cases
}

// controlledBy returns the spec of a Workload with a controllerRef.
func controlledBy(ref string) string {
	return `{controllerRef: ` + ref + `, podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}}]}`
}

// templates returns the spec of a Workload with n templates.
func templates(n int) string {
	var items []string
	for i := range n {
		items = append(items, fmt.Sprintf(`{name: t%d, schedulingPolicy: {basic: {}}}`, i))
	}
	return `{podGroupTemplates: [` + strings.Join(items, ", ") + `]}`
}
