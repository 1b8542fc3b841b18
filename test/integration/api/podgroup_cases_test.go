package api

// policyCases holds the rules that PodGroups and templates share, on creation. wrap makes a spec of the fields of
// a policy, and at is where they stand in it.
func policyCases(at string, wrap func(policy string) string) map[string]validationCase {
	return map[string]validationCase{
		"basic": {
			create: wrap(`{schedulingPolicy: {basic: {}}}`),
		},
		"gang": {
			create: wrap(`{schedulingPolicy: {gang: {minCount: 1}}}`),
		},
		"gang with all fields": {
			create: wrap(`{schedulingPolicy: {gang: {minCount: 4}}, disruptionMode: PodGroup, priorityClassName: high, queueName: research}`),
		},
		"neither basic nor gang": {
			create: wrap(`{schedulingPolicy: {}}`),
			want:   at + `.schedulingPolicy: Invalid value: set one of basic and gang`,
		},
		"both basic and gang": {
			create: wrap(`{schedulingPolicy: {basic: {}, gang: {minCount: 1}}}`),
			want:   at + `.schedulingPolicy: Invalid value: set one of basic and gang, not both`,
		},
		"gang without minCount": {
			create: wrap(`{schedulingPolicy: {gang: {}}}`),
			want:   incomplete(at + `.schedulingPolicy.gang.minCount: Required value`),
		},
		"minCount 0": {
			create: wrap(`{schedulingPolicy: {gang: {minCount: 0}}}`),
			want:   at + `.schedulingPolicy.gang.minCount: Invalid value: 0: ` + at + `.schedulingPolicy.gang.minCount in body should be greater than or equal to 1`,
		},
		"minCount negative": {
			create: wrap(`{schedulingPolicy: {gang: {minCount: -1}}}`),
			want:   at + `.schedulingPolicy.gang.minCount: Invalid value: -1: ` + at + `.schedulingPolicy.gang.minCount in body should be greater than or equal to 1`,
		},
		"disruptionMode Pod for gang": {
			create: wrap(`{schedulingPolicy: {gang: {minCount: 2}}, disruptionMode: Pod}`),
		},
		"disruptionMode Pod for basic": {
			create: wrap(`{schedulingPolicy: {basic: {}}, disruptionMode: Pod}`),
		},
		"disruptionMode PodGroup for basic": {
			create: wrap(`{schedulingPolicy: {basic: {}}, disruptionMode: PodGroup}`),
			want:   at + `.disruptionMode: Invalid value: PodGroup takes the gang scheduling policy; members that are placed one by one (basic) are disrupted one by one (Pod)`,
		},
		"disruptionMode unknown": {
			create: wrap(`{schedulingPolicy: {gang: {minCount: 2}}, disruptionMode: Node}`),
			want:   incomplete(at + `.disruptionMode: Unsupported value: "Node": supported values: "Pod", "PodGroup"`),
		},
		"priorityClassName empty": {
			create: wrap(`{schedulingPolicy: {basic: {}}, priorityClassName: ""}`),
			want:   at + `.priorityClassName: Invalid value: "": ` + at + `.priorityClassName in body should be at least 1 chars long`,
		},
		"queueName empty": {
			create: wrap(`{schedulingPolicy: {basic: {}}, queueName: ""}`),
			want:   at + `.queueName: Invalid value: "": ` + at + `.queueName in body should be at least 1 chars long`,
		},
	}
}

func podGroupCases() map[string]validationCase {
	cases := policyCases("spec", func(policy string) string { return policy })
	for title, tc := range map[string]validationCase{
		"no schedulingPolicy": {
			create: `{priorityClassName: high}`,
			want:   `spec.schedulingPolicy: Required value: set it here, or name a template that has it in podGroupTemplateRef`,
		},
		"no schedulingPolicy, but a template": {
			create: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}}`,
		},
		"disruptionMode PodGroup, policy left to the template": {
			create: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}, disruptionMode: PodGroup}`,
		},
		"disruptionMode PodGroup, basic filled in from the template": {
			create: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}, disruptionMode: PodGroup}`,
			update: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}, disruptionMode: PodGroup, schedulingPolicy: {basic: {}}}`,
			want:   `spec.disruptionMode: Invalid value: PodGroup takes the gang scheduling policy; members that are placed one by one (basic) are disrupted one by one (Pod)`,
		},
		"template without a Workload": {
			create: `{podGroupTemplateRef: {podGroupTemplateName: t}}`,
			want:   incomplete(`spec.podGroupTemplateRef.workloadName: Required value`),
		},

		"nothing changed": {
			create: `{schedulingPolicy: {gang: {minCount: 2}}, disruptionMode: PodGroup, priorityClassName: high, priority: 7, queueName: q}`,
			update: `{schedulingPolicy: {gang: {minCount: 2}}, disruptionMode: PodGroup, priorityClassName: high, priority: 7, queueName: q}`,
		},
		"minCount changed": {
			create: `{schedulingPolicy: {gang: {minCount: 2}}}`,
			update: `{schedulingPolicy: {gang: {minCount: 3}}}`,
			want:   `spec.schedulingPolicy: Forbidden: field is immutable after creation`,
		},
		"gang becomes basic": {
			create: `{schedulingPolicy: {gang: {minCount: 2}}}`,
			update: `{schedulingPolicy: {basic: {}}}`,
			want:   `spec.schedulingPolicy: Forbidden: field is immutable after creation`,
		},
		"schedulingPolicy removed": {
			create: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}, schedulingPolicy: {gang: {minCount: 2}}}`,
			update: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}}`,
			want:   `spec.schedulingPolicy: Forbidden: field is immutable after creation`,
		},
		"disruptionMode changed": {
			create: `{schedulingPolicy: {gang: {minCount: 2}}, disruptionMode: Pod}`,
			update: `{schedulingPolicy: {gang: {minCount: 2}}, disruptionMode: PodGroup}`,
			want:   `spec.disruptionMode: Forbidden: field is immutable after creation`,
		},
		"disruptionMode removed": {
			create: `{schedulingPolicy: {gang: {minCount: 2}}, disruptionMode: PodGroup}`,
			update: `{schedulingPolicy: {gang: {minCount: 2}}}`,
			want:   `spec.disruptionMode: Forbidden: field is immutable after creation`,
		},
		"disruptionMode set later": {
			create: `{schedulingPolicy: {gang: {minCount: 2}}}`,
			update: `{schedulingPolicy: {gang: {minCount: 2}}, disruptionMode: PodGroup}`,
			want:   `spec.disruptionMode: Forbidden: field is immutable after creation`,
		},
		"priorityClassName changed": {
			create: `{schedulingPolicy: {basic: {}}, priorityClassName: low}`,
			update: `{schedulingPolicy: {basic: {}}, priorityClassName: high}`,
			want:   `spec.priorityClassName: Forbidden: field is immutable after creation`,
		},
		"priorityClassName removed": {
			create: `{schedulingPolicy: {basic: {}}, priorityClassName: low}`,
			update: `{schedulingPolicy: {basic: {}}}`,
			want:   `spec.priorityClassName: Forbidden: field is immutable after creation`,
		},
		"priorityClassName set later": {
			create: `{schedulingPolicy: {basic: {}}}`,
			update: `{schedulingPolicy: {basic: {}}, priorityClassName: high}`,
			want:   `spec.priorityClassName: Forbidden: field is immutable after creation`,
		},
		"queueName changed": {
			create: `{schedulingPolicy: {basic: {}}, queueName: a}`,
			update: `{schedulingPolicy: {basic: {}}, queueName: b}`,
			want:   `spec.queueName: Forbidden: field is immutable after creation`,
		},
		"queueName removed": {
			create: `{schedulingPolicy: {basic: {}}, queueName: a}`,
			update: `{schedulingPolicy: {basic: {}}}`,
			want:   `spec.queueName: Forbidden: field is immutable after creation`,
		},
		"queueName set later": {
			create: `{schedulingPolicy: {basic: {}}}`,
			update: `{schedulingPolicy: {basic: {}}, queueName: a}`,
			want:   `spec.queueName: Forbidden: field is immutable after creation`,
		},
		"priority filled in": {
			create: `{schedulingPolicy: {basic: {}}, priorityClassName: high}`,
			update: `{schedulingPolicy: {basic: {}}, priorityClassName: high, priority: 1000}`,
		},
		"priority 0 filled in": {
			create: `{schedulingPolicy: {basic: {}}}`,
			update: `{schedulingPolicy: {basic: {}}, priority: 0}`,
		},
		"priority changed": {
			create: `{schedulingPolicy: {basic: {}}, priority: 0}`,
			update: `{schedulingPolicy: {basic: {}}, priority: 1}`,
			want:   `spec.priority: Forbidden: field is immutable once it is filled in`,
		},
		"priority removed": {
			create: `{schedulingPolicy: {basic: {}}, priority: 0}`,
			update: `{schedulingPolicy: {basic: {}}}`,
			want:   `spec.priority: Forbidden: field is immutable once it is filled in`,
		},

		"preemptionPolicy unknown": {
			create: `{schedulingPolicy: {basic: {}}, preemptionPolicy: Sometimes}`,
			want:   incomplete(`spec.preemptionPolicy: Unsupported value: "Sometimes": supported values: "Never", "PreemptLowerPriority"`),
		},
		"preemptionPolicy filled in": {
			create: `{schedulingPolicy: {basic: {}}, priority: 0}`,
			update: `{schedulingPolicy: {basic: {}}, priority: 0, preemptionPolicy: Never}`,
		},
		"preemptionPolicy changed": {
			create: `{schedulingPolicy: {basic: {}}, preemptionPolicy: Never}`,
			update: `{schedulingPolicy: {basic: {}}, preemptionPolicy: PreemptLowerPriority}`,
			want:   `spec.preemptionPolicy: Forbidden: field is immutable once it is filled in`,
		},
		"preemptionPolicy removed": {
			create: `{schedulingPolicy: {basic: {}}, preemptionPolicy: Never}`,
			update: `{schedulingPolicy: {basic: {}}}`,
			want:   `spec.preemptionPolicy: Forbidden: field is immutable once it is filled in`,
		},

		"all filled in from the template": {
			create: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}}`,
			update: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}, schedulingPolicy: {gang: {minCount: 2}}, disruptionMode: PodGroup, priorityClassName: high, priority: 1000, queueName: q}`,
		},
		"set field changed, with a template": {
			create: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}, queueName: a}`,
			update: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}, queueName: b}`,
			want:   `spec.queueName: Forbidden: field is immutable after creation`,
		},
		"template changed": {
			create: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}}`,
			update: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: u}}`,
			want:   `spec.podGroupTemplateRef: Forbidden: field is immutable after creation`,
		},
		"template removed": {
			create: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}, schedulingPolicy: {basic: {}}}`,
			update: `{schedulingPolicy: {basic: {}}}`,
			want:   `spec.podGroupTemplateRef: Forbidden: field is immutable after creation`,
		},
		"template set later": {
			create: `{schedulingPolicy: {basic: {}}}`,
			update: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}, schedulingPolicy: {basic: {}}}`,
			want:   `spec.podGroupTemplateRef: Forbidden: field is immutable after creation`,
		},
		"template set later to set another field": {
			create: `{schedulingPolicy: {basic: {}}}`,
			update: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}, schedulingPolicy: {basic: {}}, queueName: q}`,
			want:   `spec.podGroupTemplateRef: Forbidden: field is immutable after creation`,
		},
	} {
		cases[title] = tc
	}
	return cases
}
