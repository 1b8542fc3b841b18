package api

import (
	"fmt"
	"strings"
)

// disruptionCases returns the cases for status.disruption of a group with the given spec. The field
// records a preemption of the whole group. The scheduler writes it before it evicts the group. If
// the API server rejected valid records, the scheduler could not preempt the group.
func disruptionCases(spec string) map[string]validationCase {
	const at = "status.disruption"
	record := func(preemptor, rule, message, time, pods string) string {
		var out []string
		for _, field := range [][2]string{{"preemptor", preemptor}, {"rule", rule}, {"message", message}, {"time", time}, {"pods", pods}} {
			if field[1] != "" {
				out = append(out, field[0]+": "+field[1])
			}
		}
		return "{disruption: {" + strings.Join(out, ", ") + "}}"
	}
	const (
		gang    = `{kind: PodGroup, namespace: default, name: urgent, uid: u}`
		message = `to make room`
		time    = `"2026-01-02T03:04:05Z"`
		pod     = `[{name: a, uid: u}]`
	)
	cases := map[string]validationCase{}
	for title, tc := range map[string]struct{ status, want string }{
		"as it is written":   {status: record(gang, "LowerPriority", message, time, pod)},
		"for a Pod, no rule": {status: record(`{kind: Pod, namespace: default, name: p}`, "", message, time, pod)},
		"as long as any": {status: record(
			fmt.Sprintf(`{kind: PodGroup, namespace: %s, name: %s}`, letters(63), letters(253)),
			letters(63), letters(2048), time, fmt.Sprintf(`[{name: %s, uid: u}]`, letters(253)))},
		"for a tree":           {status: record(`{kind: CompositePodGroup, namespace: default, name: c}`, "", message, time, pod)},
		"no stops":             {status: record(gang, "", message, time, pod+", stops: 0")},
		"as many stops as any": {status: record(gang, "", message, time, pod+", stops: 2147483647")},
		"too many stops": {
			record(gang, "", message, time, pod+", stops: 2147483648"),
			`[status: Invalid value: "": Checked value must be of type integer with format int32 in disruption.stops, ` +
				at + `.stops: Invalid value: 2147483648: disruption.stops in body should be less than or equal to 2147483647]`,
		},
		"negative stops": {
			record(gang, "", message, time, pod+", stops: -1"),
			at + ".stops: Invalid value: -1: disruption.stops in body should be greater than or equal to 0",
		},
		"as many pods as any": {status: record(gang, "", message, time, pods(10000))},

		"no preemptor":    {record("", "", message, time, pod), incomplete(at + ".preemptor: Required value")},
		"no message":      {record(gang, "", "", time, pod), incomplete(at + ".message: Required value")},
		"no time":         {record(gang, "", message, "", pod), incomplete(at + ".time: Required value")},
		"no list of pods": {record(gang, "", message, time, ""), incomplete(at + ".pods: Required value")},
		"no pods": {
			record(gang, "", message, time, "[]"),
			at + ".pods: Invalid value: 0: disruption.pods in body should have at least 1 items",
		},
		"too many pods":     {record(gang, "", message, time, pods(10001)), incomplete(at + ".pods: Too many: 10001: must have at most 10000 items")},
		"pod without name":  {record(gang, "", message, time, `[{uid: u}]`), incomplete(at + ".pods[0].name: Required value")},
		"pod without UID":   {record(gang, "", message, time, `[{name: a}]`), incomplete(at + ".pods[0].uid: Required value")},
		"pod name too long": {record(gang, "", message, time, fmt.Sprintf(`[{name: %s, uid: u}]`, letters(254))), tooLong(at+".pods[0].name", 253)},
		"message too long":  {record(gang, "", letters(2049), time, pod), tooLong(at+".message", 2048)},
		"rule too long":     {record(gang, letters(64), message, time, pod), tooLong(at+".rule", 63)},
		"time malformed": {
			record(gang, "", message, "soon", pod),
			incomplete(at + `.time: Invalid value: "soon": disruption.time in body must be of type date-time: "soon"`),
		},
		"preemptor of another kind": {
			record(`{kind: Job, namespace: default, name: j}`, "", message, time, pod),
			incomplete(at + `.preemptor.kind: Unsupported value: "Job": supported values: "Pod", "PodGroup", "CompositePodGroup"`),
		},
		"preemptor without kind":      {record(`{namespace: default, name: j}`, "", message, time, pod), incomplete(at + ".preemptor.kind: Required value")},
		"preemptor without namespace": {record(`{kind: Pod, name: j}`, "", message, time, pod), incomplete(at + ".preemptor.namespace: Required value")},
		"preemptor without name":      {record(`{kind: Pod, namespace: default}`, "", message, time, pod), incomplete(at + ".preemptor.name: Required value")},
		"preemptor's namespace too long": {
			record(fmt.Sprintf(`{kind: Pod, namespace: %s, name: j}`, letters(64)), "", message, time, pod), tooLong(at+".preemptor.namespace", 63),
		},
		"preemptor's name too long": {
			record(fmt.Sprintf(`{kind: Pod, namespace: default, name: %s}`, letters(254)), "", message, time, pod), tooLong(at+".preemptor.name", 253),
		},
	} {
		cases["disruption, "+title] = validationCase{create: spec, status: tc.status, want: tc.want}
	}
	return cases
}

// pods returns a list of n pods.
func pods(n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat("{name: a, uid: u}, ", n), ", ") + "]"
}
