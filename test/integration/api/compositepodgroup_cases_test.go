package api

import "maps"

// compositeCases returns the validation cases for CompositePodGroups.
func compositeCases() map[string]validationCase {
	const gang = `schedulingPolicy: {gang: {minGroupCount: 2}}`
	immutable := func(field string) string {
		return `spec.` + field + `: Forbidden: field is immutable after creation`
	}
	with := func(field string) string { return `{` + gang + `, ` + field + `}` }
	const at = "spec.schedulingPolicy.gang.minGroupCount"
	cases := map[string]validationCase{
		"basic":           {create: `{schedulingPolicy: {basic: {}}}`},
		"all fields":      {create: `{` + gang + `, disruptionMode: All, priorityClassName: high, parentCompositePodGroupName: root}`},
		"no policy":       {create: `{schedulingPolicy: {}}`, want: `spec.schedulingPolicy: Invalid value: set one of basic and gang`},
		"both policies":   {create: `{schedulingPolicy: {basic: {}, gang: {minGroupCount: 1}}}`, want: `spec.schedulingPolicy: Invalid value: set one of basic and gang, not both`},
		"All for basic":   {create: `{schedulingPolicy: {basic: {}}, disruptionMode: All}`, want: `spec.disruptionMode: Invalid value: All takes the gang scheduling policy; groups that are placed one by one (basic) are disrupted one by one (Single)`},
		"Single for gang": {create: `{` + gang + `, disruptionMode: Single}`},
		"minGroupCount 0": {create: `{schedulingPolicy: {gang: {minGroupCount: 0}}}`, want: `spec.schedulingPolicy.gang.minGroupCount: Invalid value: 0: spec.schedulingPolicy.gang.minGroupCount in body should be greater than or equal to 1`},
		"an empty parent": {create: `{` + gang + `, parentCompositePodGroupName: ""}`, want: tooShort("spec.parentCompositePodGroupName")},
		"another parent":  {create: `{` + gang + `, parentCompositePodGroupName: a}`, update: `{` + gang + `, parentCompositePodGroupName: b}`, want: immutable("parentCompositePodGroupName")},
		"a late parent":   {create: `{` + gang + `}`, update: `{` + gang + `, parentCompositePodGroupName: b}`, want: immutable("parentCompositePodGroupName")},
		"another policy":  {create: `{` + gang + `}`, update: `{schedulingPolicy: {basic: {}}}`, want: immutable("schedulingPolicy")},
		"minGroupCount lowered while members have a node": {
			create: `{` + gang + `}`, had: `{scheduled: 2, running: 2}`, update: `{schedulingPolicy: {gang: {minGroupCount: 1}}}`,
		},
		"minGroupCount raised while members wait": {
			create: `{` + gang + `}`, had: `{pending: 1}`, update: `{schedulingPolicy: {gang: {minGroupCount: 3}}}`,
		},
		"minGroupCount raised while a member has a node": {
			create: `{` + gang + `}`, had: `{scheduled: 1}`, update: `{schedulingPolicy: {gang: {minGroupCount: 3}}}`,
			want: at + `: Forbidden: cannot be raised while members have a node; it may be lowered at any time`,
		},
		"another mode":  {create: `{` + gang + `}`, update: `{` + gang + `, disruptionMode: All}`, want: immutable("disruptionMode")},
		"another class": {create: `{` + gang + `, priorityClassName: a}`, update: `{` + gang + `, priorityClassName: b}`, want: immutable("priorityClassName")},
		"filled in":     {create: `{` + gang + `}`, update: `{` + gang + `, priorityClassName: default, priority: 5, preemptionPolicy: Never}`},
		"another priority": {
			create: `{` + gang + `, priority: 5}`, update: `{` + gang + `, priority: 6}`,
			want: `spec.priority: Forbidden: field is immutable once it is filled in`,
		},
		"another preemptionPolicy": {
			create: with(`preemptionPolicy: Never`), update: with(`preemptionPolicy: PreemptLowerPriority`),
			want: `spec.preemptionPolicy: Forbidden: field is immutable once it is filled in`,
		},
		"preemptionPolicy removed": {
			create: with(`preemptionPolicy: Never`), update: `{` + gang + `}`,
			want: `spec.preemptionPolicy: Forbidden: field is immutable once it is filled in`,
		},
		"no parent anymore": {create: with(`parentCompositePodGroupName: a`), update: `{` + gang + `}`, want: immutable("parentCompositePodGroupName")},
		"no mode anymore":   {create: with(`disruptionMode: All`), update: `{` + gang + `}`, want: immutable("disruptionMode")},
		"a late class":      {create: `{` + gang + `}`, update: with(`priorityClassName: a`), want: immutable("priorityClassName")},

		"no spec":                          {want: incomplete(`spec: Required value`)},
		"no schedulingPolicy":              {create: `{priorityClassName: high}`, want: incomplete(`spec.schedulingPolicy: Required value`)},
		"gang without minGroupCount":       {create: `{schedulingPolicy: {gang: {}}}`, want: incomplete(at + `: Required value`)},
		"minGroupCount 1":                  {create: `{schedulingPolicy: {gang: {minGroupCount: 1}}}`},
		"minGroupCount as high as any":     {create: `{schedulingPolicy: {gang: {minGroupCount: 2147483647}}}`},
		"minGroupCount too high":           {create: `{schedulingPolicy: {gang: {minGroupCount: 2147483648}}}`, want: tooHigh(at)},
		"mode unknown":                     {create: with(`disruptionMode: Never`), want: incomplete(`spec.disruptionMode: Unsupported value: "Never": supported values: "Single", "All"`)},
		"parent of one letter":             {create: with(`parentCompositePodGroupName: a`)},
		"parent's name as long as any":     {create: with(`parentCompositePodGroupName: ` + letters(253))},
		"parent's name too long":           {create: with(`parentCompositePodGroupName: ` + letters(254)), want: tooLong("spec.parentCompositePodGroupName", 253)},
		"priorityClassName empty":          {create: with(`priorityClassName: ""`), want: tooShort("spec.priorityClassName")},
		"priorityClassName of one letter":  {create: with(`priorityClassName: a`)},
		"priorityClassName as long as any": {create: with(`priorityClassName: ` + letters(253))},
		"priorityClassName too long":       {create: with(`priorityClassName: ` + letters(254)), want: tooLong("spec.priorityClassName", 253)},
		"priority as high as any":          {create: with(`priority: 2147483647`)},
		"priority too high":                {create: with(`priority: 2147483648`), want: tooHigh("spec.priority")},
		"priority as low as any":           {create: with(`priority: -2147483648`)},
		"priority too low":                 {create: with(`priority: -2147483649`), want: tooLow("spec.priority")},
		"preemptionPolicy Never":           {create: with(`preemptionPolicy: Never`)},
		"preemptionPolicy of most classes": {create: with(`preemptionPolicy: PreemptLowerPriority`)},
		"preemptionPolicy unknown": {
			create: with(`preemptionPolicy: Sometimes`),
			want:   incomplete(`spec.preemptionPolicy: Unsupported value: "Sometimes": supported values: "Never", "PreemptLowerPriority"`),
		},
	}
	maps.Copy(cases, disruptionCases(`{`+gang+`}`))
	return cases
}

// parentCases returns the cases for the parent of a PodGroup or of a template. wrap makes a spec
// from the fields of a policy, and at is the path of these fields in the spec.
func parentCases(at string, wrap func(policy string) string) map[string]validationCase {
	parent := func(name string) string { return wrap(basicWith(`parentCompositePodGroupName: ` + name)) }
	return map[string]validationCase{
		"parent of one letter":         {create: parent("a")},
		"parent's name as long as any": {create: parent(letters(253))},
		"parent's name too long":       {create: parent(letters(254)), want: tooLong(at+".parentCompositePodGroupName", 253)},
		"parent's name empty":          {create: parent(`""`), want: tooShort(at + ".parentCompositePodGroupName")},
		"parent unchanged":             {create: parent("a"), update: parent("a")},
		"parent changed": {
			create: parent("a"), update: parent("b"),
			want: at + `.parentCompositePodGroupName: Forbidden: field is immutable after creation`,
		},
		"parent removed": {
			create: parent("a"), update: wrap(`{schedulingPolicy: {basic: {}}}`),
			want: at + `.parentCompositePodGroupName: Forbidden: field is immutable after creation`,
		},
		"parent set later": {
			create: wrap(`{schedulingPolicy: {basic: {}}}`), update: parent("a"),
			want: at + `.parentCompositePodGroupName: Forbidden: field is immutable after creation`,
		},
	}
}
