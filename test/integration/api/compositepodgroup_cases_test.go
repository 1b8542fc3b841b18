package api

// compositeCases returns the validation cases for CompositePodGroups.
func compositeCases() map[string]validationCase {
	const gang = `schedulingPolicy: {gang: {minGroupCount: 2}}`
	immutable := func(field string) string {
		return `spec.` + field + `: Forbidden: field is immutable after creation`
	}
	return map[string]validationCase{
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
		"another count":   {create: `{` + gang + `}`, update: `{schedulingPolicy: {gang: {minGroupCount: 1}}}`, want: immutable("schedulingPolicy")},
		"another mode":    {create: `{` + gang + `}`, update: `{` + gang + `, disruptionMode: All}`, want: immutable("disruptionMode")},
		"another class":   {create: `{` + gang + `, priorityClassName: a}`, update: `{` + gang + `, priorityClassName: b}`, want: immutable("priorityClassName")},
		"filled in":       {create: `{` + gang + `}`, update: `{` + gang + `, priorityClassName: default, priority: 5, preemptionPolicy: Never}`},
		"another priority": {
			create: `{` + gang + `, priority: 5}`, update: `{` + gang + `, priority: 6}`,
			want: `spec.priority: Forbidden: field is immutable once it is filled in`,
		},
	}
}
