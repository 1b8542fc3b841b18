package api

import (
	"fmt"
	"maps"
	"strings"
)

// policyCases returns the cases about the creation of a policy. PodGroups and the templates of
// Workloads share these rules. The function wrap makes a spec from the fields of a policy, and at
// is the path of these fields in the spec.
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
		"disruptionMode Never below a parent": {
			create: wrap(`{schedulingPolicy: {gang: {minCount: 1}}, disruptionMode: Never, parentCompositePodGroupName: p}`),
		},
		"disruptionMode Never for basic": {
			create: wrap(`{schedulingPolicy: {basic: {}}, disruptionMode: Never, parentCompositePodGroupName: p}`),
			want:   at + `.disruptionMode: Invalid value: Never takes the gang scheduling policy; members that are placed one by one (basic) are disrupted one by one (Pod)`,
		},
		"disruptionMode unknown": {
			create: wrap(`{schedulingPolicy: {gang: {minCount: 2}}, disruptionMode: Node}`),
			want:   incomplete(at + `.disruptionMode: Unsupported value: "Node": supported values: "Pod", "PodGroup", "Never"`),
		},
		"priorityClassName empty":                       {create: wrap(basicWith(`priorityClassName: ""`)), want: tooShort(at + ".priorityClassName")},
		"priorityClassName of one letter":               {create: wrap(basicWith(`priorityClassName: a`))},
		"priorityClassName as long as any":              {create: wrap(basicWith(`priorityClassName: ` + letters(253)))},
		"priorityClassName too long":                    {create: wrap(basicWith(`priorityClassName: ` + letters(254))), want: tooLong(at+".priorityClassName", 253)},
		"preemptionPriorityClassName":                   {create: wrap(basicWith(`priorityClassName: low, preemptionPriorityClassName: high`))},
		"preemptionPriorityClassName empty":             {create: wrap(basicWith(`preemptionPriorityClassName: ""`)), want: tooShort(at + ".preemptionPriorityClassName")},
		"preemptionPriorityClassName of one letter":     {create: wrap(basicWith(`preemptionPriorityClassName: a`))},
		"preemptionPriorityClassName as long as any":    {create: wrap(basicWith(`preemptionPriorityClassName: ` + letters(253)))},
		"preemptionPriorityClassName too long":          {create: wrap(basicWith(`preemptionPriorityClassName: ` + letters(254))), want: tooLong(at+".preemptionPriorityClassName", 253)},
		"preemptionPriorityClassName like the system's": {create: wrap(basicWith(`preemptionPriorityClassName: systematic`))},
		"preemptionPriorityClassName of the system": {
			create: wrap(basicWith(`preemptionPriorityClassName: system-cluster-critical`)),
			want:   at + `.preemptionPriorityClassName: Invalid value: "system-cluster-critical": classes whose names begin with system- are for work of the system; name another class`,
		},
		"preemptionPriorityClassName below a class of the system": {
			create: wrap(basicWith(`priorityClassName: system-node-critical, preemptionPriorityClassName: high`)),
			want:   at + `.preemptionPriorityClassName: Invalid value: the group has a class of the system, and every class that may be set here is below it`,
		},
		"a class of the system":    {create: wrap(basicWith(`priorityClassName: system-node-critical`))},
		"queueName empty":          {create: wrap(basicWith(`queueName: ""`)), want: tooShort(at + ".queueName")},
		"queueName of one letter":  {create: wrap(basicWith(`queueName: a`))},
		"queueName as long as any": {create: wrap(basicWith(`queueName: ` + letters(253)))},
		"queueName too long":       {create: wrap(basicWith(`queueName: ` + letters(254))), want: tooLong(at+".queueName", 253)},
		"preemptionPolicy Never":   {create: wrap(basicWith(`preemptionPolicy: Never`))},
		"preemptionPolicy PreemptLowerPriority": {
			create: wrap(basicWith(`preemptionPolicy: PreemptLowerPriority`)),
		},
		"preemptionPolicy unknown": {
			create: wrap(basicWith(`preemptionPolicy: Sometimes`)),
			want:   incomplete(at + `.preemptionPolicy: Unsupported value: "Sometimes": supported values: "Never", "PreemptLowerPriority"`),
		},
		"priority as high as any":       {create: wrap(basicWith(`priority: 2147483647`))},
		"priority too high":             {create: wrap(basicWith(`priority: 2147483648`)), want: tooHigh(at + ".priority")},
		"priority as low as any":        {create: wrap(basicWith(`priority: -2147483648`))},
		"priority too low":              {create: wrap(basicWith(`priority: -2147483649`)), want: tooLow(at + ".priority")},
		"topology key":                  {create: wrap(gangIn("example.com/rack"))},
		"topology key without a prefix": {create: wrap(gangIn("rack"))},
		"topology key as long as any":   {create: wrap(gangIn(letters(253) + "/" + letters(63)))},
		"topology key too long": {
			create: wrap(gangIn(letters(254) + "/" + letters(63))),
			want:   tooLong(at+".schedulingConstraints.topology[0].key", 317),
		},
		"topology key that no label has": {
			create: wrap(gangIn("a b")),
			want: at + `.schedulingConstraints.topology[0].key: Invalid value: "a b": ` + at +
				`.schedulingConstraints.topology[0].key in body should match '^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'`,
		},
		"topology without a key": {
			create: wrap(`{schedulingPolicy: {gang: {minCount: 2}}, schedulingConstraints: {topology: [{}]}}`),
			want:   incomplete(at + `.schedulingConstraints.topology[0].key: Required value`),
		},
		"topology without an entry": {
			create: wrap(`{schedulingPolicy: {gang: {minCount: 2}}, schedulingConstraints: {topology: []}}`),
			want:   at + `.schedulingConstraints.topology: Invalid value: 0: ` + at + `.schedulingConstraints.topology in body should have at least 1 items`,
		},
		"topology with two required keys": {
			create: wrap(gangAt(`{key: rack}, {key: zone}`)),
			want:   at + `.schedulingConstraints.topology: Invalid value: ` + requiredLast,
		},
		"topology with a required key before a preferred one": {
			create: wrap(gangAt(`{key: zone}, {key: rack, mode: Preferred}`)),
			want:   at + `.schedulingConstraints.topology: Invalid value: ` + requiredLast,
		},
		"topology with the mode Required before a preferred key": {
			create: wrap(gangAt(`{key: zone, mode: Required}, {key: rack, mode: Preferred}`)),
			want:   at + `.schedulingConstraints.topology: Invalid value: ` + requiredLast,
		},
		"topology with a key twice": {
			create: wrap(gangAt(`{key: rack, mode: Preferred}, {key: rack}`)),
			want:   at + `.schedulingConstraints.topology: Invalid value: each key may be listed once`,
		},
		"topology with preferred levels": {create: wrap(gangAt(`{key: rack, mode: Preferred}, {key: block, mode: Preferred}`))},
		"topology with as many levels as any": {
			create: wrap(gangAt(`{key: a, mode: Preferred}, {key: b, mode: Preferred}, {key: c, mode: Preferred}, {key: d, mode: Preferred}, {key: e}`)),
		},
		"topology with the mode Required last": {create: wrap(gangAt(`{key: rack, mode: Preferred}, {key: zone, mode: Required}`))},
		"topology with too many levels": {
			create: wrap(gangAt(`{key: a, mode: Preferred}, {key: b, mode: Preferred}, {key: c, mode: Preferred}, {key: d, mode: Preferred}, {key: e, mode: Preferred}, {key: f}`)),
			want:   incomplete(at + `.schedulingConstraints.topology: Too many: 6: must have at most 5 items`),
		},
		"topology with a mode that does not exist": {
			create: wrap(gangAt(`{key: rack, mode: Strict}`)),
			want:   incomplete(at + `.schedulingConstraints.topology[0].mode: Unsupported value: "Strict": supported values: "Required", "Preferred"`),
		},
		"constraints without topology": {
			create: wrap(`{schedulingPolicy: {gang: {minCount: 2}}, schedulingConstraints: {}}`),
			want:   incomplete(at + `.schedulingConstraints.topology: Required value`),
		},
		"topology for basic": {
			create: wrap(basicWith(`schedulingConstraints: {topology: [{key: rack}]}`)),
			want:   at + `.schedulingConstraints: Invalid value: constraints take the gang scheduling policy; members that are placed one by one (basic) may be anywhere`,
		},
		"minCount as high as any": {create: wrap(`{schedulingPolicy: {gang: {minCount: 2147483647}}}`)},
		"minCount too high": {
			create: wrap(`{schedulingPolicy: {gang: {minCount: 2147483648}}}`),
			want:   tooHigh(at + ".schedulingPolicy.gang.minCount"),
		},
	}
}

// basicWith returns a basic policy with one more field.
func basicWith(field string) string { return `{schedulingPolicy: {basic: {}}, ` + field + `}` }

// gangIn returns a gang policy with one topology key.
func gangIn(key string) string {
	return fmt.Sprintf(`{schedulingPolicy: {gang: {minCount: 2}}, schedulingConstraints: {topology: [{key: %q}]}}`, key)
}

// gangAt returns a gang policy with a list of topology constraints.
func gangAt(entries string) string {
	return `{schedulingPolicy: {gang: {minCount: 2}}, schedulingConstraints: {topology: [` + entries + `]}}`
}

// requiredLast is the message for a wrong required key: a list may have only one, and it must be
// the last entry.
const requiredLast = `at most one key is required, and it is the last one: preferred levels are inside of it and come before it, the nearest first`

// letters returns a string of n letters.
func letters(n int) string { return strings.Repeat("a", n) }

// These functions return the messages for values that are too short, too long, too small or too
// large.

func tooShort(at string) string {
	return fmt.Sprintf(`%[1]s: Invalid value: "": %[1]s in body should be at least 1 chars long`, at)
}

func tooLong(at string, most int) string {
	return incomplete(fmt.Sprintf("%s: Too long: may not be more than %d bytes", at, most))
}

func tooHigh(at string) string {
	return notInt32(at, "2147483648", "should be less than or equal to 2147483647")
}

func tooLow(at string) string {
	return notInt32(at, "-2147483649", "should be greater than or equal to -2147483648")
}

// notInt32 returns the message for a value that does not fit in 32 bits. It has two errors: the
// bound of the field, and the format. API servers before 1.35 do not check the format.
func notInt32(at, value, bound string) string {
	return fmt.Sprintf(`[<nil>: Invalid value: "": Checked value must be of type integer with format int32 in %[1]s, %[1]s: Invalid value: %[2]s: %[1]s in body %[3]s]`, at, value, bound)
}

func podGroupCases() map[string]validationCase {
	asIs := func(policy string) string { return policy }
	cases := policyCases("spec", asIs)
	maps.Copy(cases, parentCases("spec", asIs))
	for title, tc := range map[string]validationCase{
		"no schedulingPolicy": {
			create: `{priorityClassName: high}`,
			want:   `spec.schedulingPolicy: Required value: set it here, or name a template that has it in podGroupTemplateRef`,
		},
		"no schedulingPolicy, but a template": {
			create: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}}`,
		},
		"disruptionMode Never without a parent": {
			create: `{schedulingPolicy: {gang: {minCount: 1}}, disruptionMode: Never}`,
			want:   `spec.disruptionMode: Invalid value: Never is for a part of a tree; set parentCompositePodGroupName, or use Pod or PodGroup`,
		},
		"disruptionMode Never, parent left to the template": {
			create: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}, schedulingPolicy: {gang: {minCount: 1}}, disruptionMode: Never}`,
		},
		"disruptionMode PodGroup, policy left to the template": {
			create: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}, disruptionMode: PodGroup}`,
		},
		"disruptionMode PodGroup, basic filled in from the template": {
			create: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}, disruptionMode: PodGroup}`,
			update: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}, disruptionMode: PodGroup, schedulingPolicy: {basic: {}}}`,
			want:   `spec.disruptionMode: Invalid value: PodGroup takes the gang scheduling policy; members that are placed one by one (basic) are disrupted one by one (Pod)`,
		},
		"no spec": {
			want: incomplete(`spec: Required value`),
		},
		"template without a Workload": {
			create: `{podGroupTemplateRef: {podGroupTemplateName: t}}`,
			want:   incomplete(`spec.podGroupTemplateRef.workloadName: Required value`),
		},
		"Workload without a template": {
			create: `{podGroupTemplateRef: {workloadName: w}}`,
			want:   incomplete(`spec.podGroupTemplateRef.podGroupTemplateName: Required value`),
		},
		"workloadName empty": {
			create: `{podGroupTemplateRef: {workloadName: "", podGroupTemplateName: t}}`,
			want:   tooShort("spec.podGroupTemplateRef.workloadName"),
		},
		"podGroupTemplateName empty": {
			create: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: ""}}`,
			want:   tooShort("spec.podGroupTemplateRef.podGroupTemplateName"),
		},
		"names of the template as long as any": {
			create: `{podGroupTemplateRef: {workloadName: ` + letters(253) + `, podGroupTemplateName: ` + letters(63) + `}}`,
		},
		"workloadName too long": {
			create: `{podGroupTemplateRef: {workloadName: ` + letters(254) + `, podGroupTemplateName: t}}`,
			want:   tooLong("spec.podGroupTemplateRef.workloadName", 253),
		},
		"podGroupTemplateName too long": {
			create: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: ` + letters(64) + `}}`,
			want:   tooLong("spec.podGroupTemplateRef.podGroupTemplateName", 63),
		},

		"nothing changed": {
			create: `{schedulingPolicy: {gang: {minCount: 2}}, disruptionMode: PodGroup, priorityClassName: high, priority: 7, queueName: q}`,
			update: `{schedulingPolicy: {gang: {minCount: 2}}, disruptionMode: PodGroup, priorityClassName: high, priority: 7, queueName: q}`,
		},
		"minCount raised": {
			create: `{schedulingPolicy: {gang: {minCount: 2}}}`,
			update: `{schedulingPolicy: {gang: {minCount: 3}}}`,
		},
		"minCount raised while members wait": {
			create: `{schedulingPolicy: {gang: {minCount: 2}}}`, had: `{pending: 2}`,
			update: `{schedulingPolicy: {gang: {minCount: 3}}}`,
		},
		"minCount raised while a member has a node": {
			create: `{schedulingPolicy: {gang: {minCount: 2}}}`, had: `{scheduled: 1}`,
			update: `{schedulingPolicy: {gang: {minCount: 3}}}`,
			want:   `spec.schedulingPolicy.gang.minCount: Forbidden: cannot be raised while members have a node; it may be lowered at any time`,
		},
		"minCount lowered while members run": {
			create: `{schedulingPolicy: {gang: {minCount: 2}}}`, had: `{scheduled: 2, running: 2}`,
			update: `{schedulingPolicy: {gang: {minCount: 1}}}`,
		},
		"basic, while a member has a node": {
			create: `{schedulingPolicy: {basic: {}}}`, had: `{scheduled: 1}`,
			update: `{schedulingPolicy: {basic: {}}, priority: 3}`,
		},
		"basic becomes gang": {
			create: `{schedulingPolicy: {basic: {}}}`,
			update: `{schedulingPolicy: {gang: {minCount: 1}}}`,
			want:   `spec.schedulingPolicy: Forbidden: field is immutable after creation`,
		},
		"a policy filled in from the template while a member has a node": {
			create: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}}`, had: `{scheduled: 1}`,
			update: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}, schedulingPolicy: {gang: {minCount: 3}}}`,
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
		"priorityClassName filled in with the priority": {
			create: `{schedulingPolicy: {basic: {}}}`,
			update: `{schedulingPolicy: {basic: {}}, priorityClassName: default, priority: 33}`,
		},
		"priorityClassName set once the priority is filled in": {
			create: `{schedulingPolicy: {basic: {}}, priority: 33}`,
			update: `{schedulingPolicy: {basic: {}}, priorityClassName: default, priority: 33}`,
			want:   `spec.priorityClassName: Forbidden: field is immutable after creation`,
		},
		"preemptionPriorityClassName set later": {
			create: `{schedulingPolicy: {basic: {}}, priorityClassName: low, priority: 7}`, had: `{scheduled: 2, running: 2}`,
			update: `{schedulingPolicy: {basic: {}}, priorityClassName: low, priority: 7, preemptionPriorityClassName: high}`,
		},
		"preemptionPriorityClassName changed": {
			create: `{schedulingPolicy: {basic: {}}, preemptionPriorityClassName: high}`, had: `{scheduled: 2, running: 2}`,
			update: `{schedulingPolicy: {basic: {}}, preemptionPriorityClassName: low}`,
		},
		"preemptionPriorityClassName removed": {
			create: `{schedulingPolicy: {basic: {}}, preemptionPriorityClassName: high}`, had: `{scheduled: 2, running: 2}`,
			update: `{schedulingPolicy: {basic: {}}}`,
		},
		"topology changed": {
			create: gangIn("rack"), update: gangIn("zone"),
			want: `spec.schedulingConstraints: Forbidden: field is immutable after creation`,
		},
		"topology removed": {
			create: gangIn("rack"), update: `{schedulingPolicy: {gang: {minCount: 2}}}`,
			want: `spec.schedulingConstraints: Forbidden: field is immutable after creation`,
		},
		"topology set later": {
			create: `{schedulingPolicy: {gang: {minCount: 2}}}`, update: gangIn("rack"),
			want: `spec.schedulingConstraints: Forbidden: field is immutable after creation`,
		},
		"topology unchanged": {create: gangIn("rack"), update: gangIn("rack")},
		"topology filled in from the template": {
			create: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}}`,
			update: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}, schedulingPolicy: {gang: {minCount: 2}}, schedulingConstraints: {topology: [{key: rack}]}}`,
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
		"parent filled in from the template": {
			create: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}}`,
			update: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}, schedulingPolicy: {basic: {}}, parentCompositePodGroupName: a}`,
		},
		"parent changed, with a template": {
			create: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}, parentCompositePodGroupName: a}`,
			update: `{podGroupTemplateRef: {workloadName: w, podGroupTemplateName: t}, parentCompositePodGroupName: b}`,
			want:   `spec.parentCompositePodGroupName: Forbidden: field is immutable after creation`,
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
	maps.Copy(cases, disruptionCases(`{schedulingPolicy: {gang: {minCount: 1}}}`))
	return cases
}
