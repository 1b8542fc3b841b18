package api

import (
	"fmt"
	"strings"
)

const badSelector = `spec.namespaceSelector.matchExpressions: Invalid value: must have the operator In or NotIn, with values, or Exists or DoesNotExist, without`

func queueCases() map[string]validationCase {
	cases := map[string]validationCase{
		"nothing set": {
			create: `{}`,
		},
		"all set": {
			create: `{parent: root, quota: {cpu: 1500m, nvidia.com/gpu: 8}, limit: {cpu: 64, nvidia.com/gpu: "16"}, overQuotaWeight: 2, priority: -1, reclaimMinRuntime: 1h30m, preemptMinRuntime: 0s, silentWorkCap: 2h}`,
		},
		"all changed": {
			create: `{parent: a, quota: {cpu: 1}, limit: {cpu: 2}, overQuotaWeight: 2, priority: 1, reclaimMinRuntime: 1h, preemptMinRuntime: 1h}`,
			update: `{parent: b, quota: {cpu: 2}, limit: {cpu: 3}, overQuotaWeight: 0, priority: 2, reclaimMinRuntime: 2h}`,
		},

		"a selector of all kinds": {
			create: `{namespaceSelector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: In, values: [b]}, {key: a, operator: NotIn, values: [c]}, {key: a, operator: Exists}, {key: b, operator: DoesNotExist}]}, maxPriorityClass: high}`,
		},
		"a selector that selects all": {create: `{namespaceSelector: {}}`},
		"an operator that there is not": {
			create: `{namespaceSelector: {matchExpressions: [{key: a, operator: Near, values: [b]}]}}`,
			want:   badSelector,
		},
		"an operator without values": {create: `{namespaceSelector: {matchExpressions: [{key: a, operator: In}]}}`, want: badSelector},
		"an operator with values":    {create: `{namespaceSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}`, want: badSelector},
		"maxPriorityClass empty": {
			create: `{maxPriorityClass: ""}`,
			want:   `spec.maxPriorityClass: Invalid value: "": spec.maxPriorityClass in body should be at least 1 chars long`,
		},
		"a selector without a key": {
			create: `{namespaceSelector: {matchExpressions: [{operator: Exists}]}}`,
			want:   incomplete(`spec.namespaceSelector.matchExpressions[0].key: Required value`),
		},
		"a selector without an operator": {
			create: `{namespaceSelector: {matchExpressions: [{key: a}]}}`,
			want:   incomplete(`spec.namespaceSelector.matchExpressions[0].operator: Required value`),
		},
		"maxPriorityClass of one letter":  {create: `{maxPriorityClass: a}`},
		"maxPriorityClass as long as any": {create: `{maxPriorityClass: ` + letters(253) + `}`},
		"maxPriorityClass too long":       {create: `{maxPriorityClass: ` + letters(254) + `}`, want: tooLong("spec.maxPriorityClass", 253)},

		"its own parent": {
			create: `{parent: it}`,
			want:   `spec.parent: Invalid value: a queue cannot be its own parent`,
		},
		"its own parent later": {
			create: `{parent: root}`,
			update: `{parent: it}`,
			want:   `spec.parent: Invalid value: a queue cannot be its own parent`,
		},
		"parent empty": {
			create: `{parent: ""}`,
			want:   `spec.parent: Invalid value: "": spec.parent in body should be at least 1 chars long`,
		},

		"parent of one letter":  {create: `{parent: a}`},
		"parent as long as any": {create: `{parent: ` + letters(253) + `}`},
		"parent too long":       {create: `{parent: ` + letters(254) + `}`, want: tooLong("spec.parent", 253)},
		"priority as low as any": {
			create: `{priority: -2147483648}`,
		},
		"priority too high": {
			create: `{priority: 2147483648}`,
			want:   tooHigh("spec.priority"),
		},
		"priority as high as any": {
			create: `{priority: 2147483647}`,
		},
		"priority too low": {
			create: `{priority: -2147483649}`,
			want:   tooLow("spec.priority"),
		},
		"overQuotaWeight as high as any": {
			create: `{overQuotaWeight: 2147483647}`,
		},
		"overQuotaWeight too high": {
			create: `{overQuotaWeight: 2147483648}`,
			want:   tooHigh("spec.overQuotaWeight"),
		},
		"overQuotaWeight 0": {
			create: `{overQuotaWeight: 0}`,
		},
		"overQuotaWeight negative": {
			create: `{overQuotaWeight: -1}`,
			want:   `spec.overQuotaWeight: Invalid value: -1: spec.overQuotaWeight in body should be greater than or equal to 0`,
		},

		"limit equal to quota": {
			create: `{quota: {cpu: 1, memory: 1Gi}, limit: {cpu: 1000m, memory: "1073741824"}}`,
		},
		"limit of another resource": {
			create: `{quota: {cpu: 10}, limit: {memory: 1}}`,
		},
		"limit below quota": {
			create: `{quota: {cpu: 1, memory: 8Gi}, limit: {cpu: 999m, memory: 9Gi}}`,
			want:   `spec.limit: Invalid value: must be at least the quota, but is less for cpu`,
		},
		"limit below quota, both integers": {
			create: `{quota: {nvidia.com/gpu: 10}, limit: {nvidia.com/gpu: 9}}`,
			want:   `spec.limit: Invalid value: must be at least the quota, but is less for nvidia.com/gpu`,
		},
		"limit below quota later": {
			create: `{quota: {cpu: 1}, limit: {cpu: 1}}`,
			update: `{quota: {cpu: 2}, limit: {cpu: 1}}`,
			want:   `spec.limit: Invalid value: must be at least the quota, but is less for cpu`,
		},
	}

	for _, field := range []string{"quota", "limit"} {
		at := "spec." + field
		for title, tc := range map[string]validationCase{
			"zero, as string": {
				create: fmt.Sprintf(`{%s: {cpu: "0"}}`, field),
			},
			"zero, as integer": {
				create: fmt.Sprintf(`{%s: {cpu: 0}}`, field),
			},
			"negative, as string": {
				create: fmt.Sprintf(`{%s: {cpu: "-1m", memory: 1Gi}}`, field),
				want:   at + `: Invalid value: must not be negative, but is for cpu`,
			},
			"negative, as integer": {
				create: fmt.Sprintf(`{%s: {cpu: 1, memory: -1}}`, field),
				want:   at + `: Invalid value: must not be negative, but is for memory`,
			},
			"negative later": {
				create: fmt.Sprintf(`{%s: {cpu: 1}}`, field),
				update: fmt.Sprintf(`{%s: {cpu: -1}}`, field),
				want:   at + `: Invalid value: must not be negative, but is for cpu`,
			},
			"whole devices and pods, and parts of CPUs and memory": {
				create: fmt.Sprintf(`{%s: {nvidia.com/gpu: "8", pods: 1k, cpu: 1500m, memory: "1.5"}}`, field),
			},
			"a part of a device": {
				create: fmt.Sprintf(`{%s: {cpu: 500m, nvidia.com/gpu: 500m}}`, field),
				want:   at + `: Invalid value: must be an integer for pods and devices, but is not for nvidia.com/gpu`,
			},
			"a part of a pod": {
				create: fmt.Sprintf(`{%s: {pods: "1.5"}}`, field),
				want:   at + `: Invalid value: must be an integer for pods and devices, but is not for pods`,
			},
			"a part of a device later": {
				create: fmt.Sprintf(`{%s: {nvidia.com/gpu: 1}}`, field),
				update: fmt.Sprintf(`{%s: {nvidia.com/gpu: 1500m}}`, field),
				want:   at + `: Invalid value: must be an integer for pods and devices, but is not for nvidia.com/gpu`,
			},
			"no quantity": {
				create: fmt.Sprintf(`{%s: {cpu: many}}`, field),
				want: fmt.Sprintf(`[%[1]s.cpu: Invalid value: "many": %[1]s.cpu in body should match '%[2]s', %[1]s: Invalid value: must hold quantities such as 1500m, 8 or 64Gi]`,
					at, `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`),
			},
			"exponent that is no integer": {
				create: fmt.Sprintf(`{%s: {cpu: 1e1.5}}`, field),
				want:   at + `: Invalid value: must hold quantities such as 1500m, 8 or 64Gi`,
			},
			"as long as any quantity": {
				create: fmt.Sprintf(`{%s: {cpu: "%032d"}}`, field, 1),
			},
			"longer than any quantity": {
				create: fmt.Sprintf(`{%s: {cpu: "%033d"}}`, field, 1),
				want:   incomplete(at + `.cpu: Too long: may not be more than 32 bytes`),
			},
			"32 resources": {
				create: fmt.Sprintf(`{%s: %s}`, field, resources(32)),
			},
			"33 resources": {
				create: fmt.Sprintf(`{%s: %s}`, field, resources(33)),
				want:   incomplete(at + `: Too many: 33: must have at most 32 items`),
			},
		} {
			cases[field+" "+title] = tc
		}
	}

	for _, field := range []string{"reclaimMinRuntime", "preemptMinRuntime", "silentWorkCap"} {
		for _, good := range []string{
			"0", "0s", "90s", "15m", "1h30m", "1.5h", "1h0m0.5s", "10ms", "1us", "1µs", "1ns",
			"99999h", "9999999m", "999999999s", "99999h9999999m999999999s999999999999ms",
		} {
			cases[field+" "+good] = validationCase{create: fmt.Sprintf(`{%s: %q}`, field, good)}
		}
		for _, bad := range []string{
			"-1s", "-0s", "90", "s", "1", "1d", "1 h", "1h ", "1h\n", "P1D", "one hour", ".", "1m1h", "1h1h",
			// These values exceed the range of a Go duration, which has 64 bits.
			"2562048h", "100000h", "10000000m", "1000000000s", "9223372036854775808ns",
		} {
			cases[field+" "+bad] = validationCase{
				create: fmt.Sprintf(`{%s: %q}`, field, bad),
				want:   fmt.Sprintf(`spec.%s: Invalid value: %q: must be a duration such as 90s, 15m or 1h30m, not negative and at most 99999h`, field, bad),
			}
		}
		cases[field+" empty"] = validationCase{
			create: fmt.Sprintf(`{%s: ""}`, field),
			want:   fmt.Sprintf(`spec.%[1]s: Invalid value: "": spec.%[1]s in body should be at least 1 chars long`, field),
		}
		cases[field+" as long as any"] = validationCase{create: fmt.Sprintf(`{%s: 1.%061dh}`, field, 0)}
		cases[field+" too long"] = validationCase{
			create: fmt.Sprintf(`{%s: 1.%062dh}`, field, 0),
			want:   tooLong("spec."+field, 64),
		}
		cases[field+" an integer"] = validationCase{
			create: fmt.Sprintf(`{%s: 90}`, field),
			want:   incomplete(fmt.Sprintf(`spec.%[1]s: Invalid value: "integer": spec.%[1]s in body must be of type string: "integer"`, field)),
		}
		cases[field+" negative later"] = validationCase{
			create: fmt.Sprintf(`{%s: 1s}`, field),
			update: fmt.Sprintf(`{%s: -1s}`, field),
			want:   fmt.Sprintf(`spec.%s: Invalid value: "-1s": must be a duration such as 90s, 15m or 1h30m, not negative and at most 99999h`, field),
		}
	}
	return cases
}

// resources returns a resource list with n entries.
func resources(n int) string {
	var items []string
	for i := range n {
		items = append(items, fmt.Sprintf(`example.com/r%d: 1`, i))
	}
	return `{` + strings.Join(items, ", ") + `}`
}
