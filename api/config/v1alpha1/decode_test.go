package v1alpha1

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		yaml    string
		want    func(*ReprieveArgs) bool
		wantErr string
	}{
		"nothing":                       {yaml: "", want: func(a *ReprieveArgs) bool { return *a.WorkloadAware && a.Gang.PermitTimeout.Duration == time.Minute }},
		"a switch":                      {yaml: "workloadAware: false", want: func(a *ReprieveArgs) bool { return !*a.WorkloadAware && *a.Asynchronous }},
		"a duration":                    {yaml: "gang: {permitTimeout: 30s}", want: func(a *ReprieveArgs) bool { return a.Gang.PermitTimeout.Duration == 30*time.Second }},
		"an explicit zero":              {yaml: "search: {packingMembers: 0}", want: func(a *ReprieveArgs) bool { return *a.Search.PackingMembers == 0 && *a.Search.PackingNodes == 64 }},
		"its version and kind":          {yaml: "{apiVersion: config.reprieve.dev/v1alpha1, kind: ReprieveArgs}", want: func(*ReprieveArgs) bool { return true }},
		"another version":               {yaml: "apiVersion: config.reprieve.dev/v9", wantErr: `apiVersion: Unsupported value: "config.reprieve.dev/v9"`},
		"another kind":                  {yaml: "kind: NodeResourcesFitArgs", wantErr: `kind: Unsupported value: "NodeResourcesFitArgs"`},
		"an unknown field":              {yaml: "workloadaware: false", wantErr: `unknown field "workloadaware"`},
		"an unknown field further down": {yaml: "gang: {timeout: 1s}", wantErr: `unknown field "gang.timeout"`},
		"a field given twice":           {yaml: "asynchronous: true\nasynchronous: false", wantErr: `"asynchronous" already set`},
		"a switch that is none":         {yaml: "asynchronous: maybe", wantErr: "asynchronous"},
		"a duration without a unit":     {yaml: "gang: {permitTimeout: '30'}", wantErr: "gang.permitTimeout: time: missing unit in duration"},
		"a duration at the top":         {yaml: "reclaimMinRuntime: soon", wantErr: `args: reclaimMinRuntime: time: invalid duration "soon"`},
		"a duration that is a number":   {yaml: "retry: {maxBackoff: 5}", wantErr: "retry.maxBackoff: json: cannot unmarshal number"},
		"a duration that is an object":  {yaml: "retry: {maxBackoff: {seconds: 5}}", wantErr: "retry.maxBackoff: "},
		"a section that is a list":      {yaml: "retry: [5s]", wantErr: "retry: json: cannot unmarshal array"},
		"a kind that is a number":       {yaml: "kind: 5", wantErr: "args: kind: json: cannot unmarshal number"},
		"the order of levels":           {yaml: "", want: func(a *ReprieveArgs) bool { return *a.LevelOrder == LowerCost }},
		"another order of levels":       {yaml: "levelOrder: NearerLevel", want: func(a *ReprieveArgs) bool { return *a.LevelOrder == NearerLevel }},
		"an order of levels not known":  {yaml: "levelOrder: Nearest", wantErr: `levelOrder: Unsupported value: "Nearest"`},
		"the order of victims":          {yaml: "", want: func(a *ReprieveArgs) bool { return len(a.VictimOrder) == 7 && a.CountsLostWork() && !a.CountsStops() }},
		"the order of KEP-5710": {yaml: "victimOrder: [BrokenBudgets, HighestPriority, PrioritySum, Pods, Surplus, StartTime]", want: func(a *ReprieveArgs) bool {
			return !a.CountsLostWork() && slices.Equal(a.VictimOrder, PriorityOrder(CascadeOff))
		}},
		"an order with lost work": {
			yaml: "victimOrder: [BrokenBudgets, HighestPriority, LostWork, PrioritySum, Pods, Surplus, StartTime]", want: (*ReprieveArgs).CountsLostWork,
		},
		"an order with stops": {
			yaml: "victimOrder: [BrokenBudgets, HighestPriority, PrioritySum, Pods, Surplus, Repeated, StartTime]",
			want: func(a *ReprieveArgs) bool { return a.CountsStops() && !a.CountsLostWork() },
		},
		"an order with stops and lost work, and a cascade": {
			yaml: "{cascade: Decide, victimOrder: [BrokenBudgets, HighestPriority, LostWork, PrioritySum, Pods, Surplus, Cascade, Repeated, StartTime]}",
			want: func(a *ReprieveArgs) bool { return a.CountsStops() && a.CountsLostWork() },
		},
		"stops before the cascade": {
			yaml:    "{cascade: Decide, victimOrder: [BrokenBudgets, HighestPriority, PrioritySum, Pods, Surplus, Repeated, Cascade, StartTime]}",
			wantErr: "Surplus Cascade Repeated StartTime]",
		},
		"a criterion that does not exist": {yaml: "victimOrder: [BrokenBudgets, Luck]", wantErr: `victimOrder[1]: Unsupported value: "Luck"`},
		"an order that is not supported": {
			yaml:    "victimOrder: [LostWork, HighestPriority]",
			wantErr: "victimOrder: Invalid value: [\"LostWork\",\"HighestPriority\"]: must be [BrokenBudgets HighestPriority LostWork PrioritySum Pods Surplus StartTime] or ",
		},
		"no cascade": {yaml: "", want: func(a *ReprieveArgs) bool {
			return *a.Cascade == CascadeOff && !slices.Contains(a.VictimOrder, Cascade)
		}},
		"a measured cascade": {yaml: "cascade: Measure", want: func(a *ReprieveArgs) bool {
			return *a.Cascade == CascadeMeasure && !slices.Contains(a.VictimOrder, Cascade)
		}},
		"a cascade that decides": {yaml: "cascade: Decide", want: func(a *ReprieveArgs) bool { return len(a.VictimOrder) == 8 && a.VictimOrder[6] == Cascade }},
		"a cascade that decides after lost work": {
			yaml: "{cascade: Decide, victimOrder: [BrokenBudgets, HighestPriority, LostWork, PrioritySum, Pods, Surplus, Cascade, StartTime]}",
			want: (*ReprieveArgs).CountsLostWork,
		},
		"a cascade of another mode": {yaml: "cascade: Sometimes", wantErr: `args: cascade: Unsupported value: "Sometimes": supported values: "Off", "Measure", "Decide"`},
		"the criterion without its mode": {
			yaml:    "{cascade: Measure, victimOrder: [BrokenBudgets, HighestPriority, PrioritySum, Pods, Surplus, Cascade, StartTime]}",
			wantErr: `args: victimOrder[5]: Invalid value: "Cascade": requires cascade: Decide, which is Measure`,
		},
		"the mode without its criterion": {
			yaml:    "{cascade: Decide, victimOrder: [BrokenBudgets, HighestPriority, PrioritySum, Pods, Surplus, StartTime]}",
			wantErr: "must be [BrokenBudgets HighestPriority LostWork PrioritySum Pods Surplus Cascade StartTime] or ",
		},
		"typical workloads": {yaml: "placement: {workloads: [{requests: {cpu: 500m, nvidia.com/gpu: 1}, weight: 3}, {requests: {cpu: 4}, weight: 1}]}", want: func(a *ReprieveArgs) bool {
			w := a.Placement.Workloads
			cpu := w[0].Requests["cpu"]
			return len(w) == 2 && *a.Placement.Device == "nvidia.com/gpu" && cpu.MilliValue() == 500 && w[0].Weight == 3
		}},
		"another device": {yaml: "placement: {device: amd.com/gpu, workloads: [{requests: {amd.com/gpu: 8}, weight: 1}]}", want: func(a *ReprieveArgs) bool {
			return *a.Placement.Device == "amd.com/gpu"
		}},
		"a device that is none":       {yaml: "placement: {device: cpu}", wantErr: `args: placement.device: Invalid value: "cpu": must be an extended resource such as nvidia.com/gpu`},
		"workloads without a device":  {yaml: "placement: {workloads: [{requests: {cpu: 1}, weight: 1}]}", wantErr: "args: placement.workloads: Invalid value: 1: must have a workload that requests nvidia.com/gpu"},
		"a workload without a weight": {yaml: "placement: {workloads: [{requests: {nvidia.com/gpu: 1}}]}", wantErr: "args: placement.workloads[0].weight: Invalid value: 0: must be between 1 and 1000000"},
		"a negative request":          {yaml: "placement: {workloads: [{requests: {cpu: -1, nvidia.com/gpu: 1}, weight: 1}]}", wantErr: `args: placement.workloads[0].requests[cpu]: Invalid value: "-1": must not be negative`},
		"a share of a device":         {yaml: "placement: {workloads: [{requests: {nvidia.com/gpu: 0.5}, weight: 1}]}", wantErr: `args: placement.workloads[0].requests[nvidia.com/gpu]: Invalid value: "500m": must be a whole number`},
		"too many workloads": {
			yaml:    "placement: {workloads: [" + strings.Repeat("{requests: {nvidia.com/gpu: 1}, weight: 1}, ", 129) + "]}",
			wantErr: "args: placement.workloads: Too many: 129: must have at most 128 items",
		},
		"bands": {yaml: "priorityBands: [{min: 100, max: 199}, {min: -5, max: 99}, {min: 2000000000, max: 2000001000}]", want: func(a *ReprieveArgs) bool {
			return slices.Equal(a.PriorityBands, []PriorityBand{{100, 199}, {-5, 99}, {2000000000, 2000001000}})
		}},
		"an empty band":                 {yaml: "priorityBands: [{min: 2, max: 1}]", wantErr: `args: priorityBands[0]: Invalid value: "2 to 1": min must not be greater than max`},
		"bands that overlap":            {yaml: "priorityBands: [{min: 5, max: 9}, {min: 1, max: 5}]", wantErr: `args: priorityBands[1]: Invalid value: "1 to 5": overlaps priorityBands[0], which is 5 to 9`},
		"a band within a band":          {yaml: "priorityBands: [{min: 5, max: 9}, {min: 6, max: 7}]", wantErr: `priorityBands[1]: Invalid value: "6 to 7": overlaps priorityBands[0]`},
		"a band with system priorities": {yaml: "priorityBands: [{min: 0, max: 2000000000}]", wantErr: `priorityBands[0]: Invalid value: "0 to 2000000000": must not have priorities below and above 2000000000`},
		"a band up to them":             {yaml: "priorityBands: [{min: 0, max: 1999999999}]", want: func(a *ReprieveArgs) bool { return len(a.PriorityBands) == 1 }},
		"a cost of restarts":            {yaml: "lostWork: {restartCost: 5m}", want: func(a *ReprieveArgs) bool { return a.LostWork.RestartCost.Duration == 5*time.Minute }},
		"no cost of restarts":           {yaml: "", want: func(a *ReprieveArgs) bool { return a.LostWork.RestartCost.Duration == 0 }},
		"a negative cost of restarts":   {yaml: "lostWork: {restartCost: -1s}", wantErr: `lostWork.restartCost: Invalid value: "-1s": must be between 0s and 24h0m0s`},
		"a cost of more than a day":     {yaml: "lostWork: {restartCost: 25h}", wantErr: `lostWork.restartCost: Invalid value: "25h0m0s": must be between 0s and 24h0m0s`},
		"steps and a cost of pods": {yaml: "lostWork: {step: 0s, podCost: 10m}", want: func(a *ReprieveArgs) bool {
			return a.LostWork.Step.Duration == 0 && a.LostWork.PodCost.Duration == 10*time.Minute
		}},
		"no steps and no cost of pods": {yaml: "", want: func(a *ReprieveArgs) bool {
			return a.LostWork.Step.Duration == 5*time.Minute && a.LostWork.PodCost.Duration == time.Hour
		}},
		"a negative step":         {yaml: "lostWork: {step: -1s}", wantErr: `lostWork.step: Invalid value: "-1s": must be between 0s and 24h0m0s`},
		"a cost of pods of weeks": {yaml: "lostWork: {podCost: 200h}", wantErr: `lostWork.podCost: Invalid value: "200h0m0s": must be between 0s and 24h0m0s`},
		"weights of devices": {yaml: "lostWork: {weights: {nvidia.com/mig-1g.5gb: 0.125, rdma/hca: 0}}", want: func(a *ReprieveArgs) bool {
			of := a.LostWork.MilliDevices
			return of("nvidia.com/mig-1g.5gb") == 125 && of("rdma/hca") == 0 && of("nvidia.com/gpu") == 1000 && of("cpu") == 0 && of("example.kubernetes.io/x") == 0
		}},
		"a weight of CPUs":        {yaml: "lostWork: {weights: {cpu: 1}}", wantErr: `lostWork.weights[cpu]: Invalid value: "cpu": must be an extended resource such as nvidia.com/gpu`},
		"a negative weight":       {yaml: "lostWork: {weights: {a.b/c: -1}}", wantErr: `lostWork.weights[a.b/c]: Invalid value: "-1": must be between 0 and 1000`},
		"a weight that is large":  {yaml: "lostWork: {weights: {a.b/c: 1001}}", wantErr: `lostWork.weights[a.b/c]: Invalid value: "1001": must be between 0 and 1000`},
		"a weight that is small":  {yaml: "lostWork: {weights: {a.b/c: 100u}}", wantErr: `lostWork.weights[a.b/c]: Invalid value: "100u": must be a multiple of 0.001`},
		"a weight that is a word": {yaml: "lostWork: {weights: {a.b/c: one}}", wantErr: "lostWork.weights"},
		"kinds for groups":        {yaml: "groups: {kinds: [Job, JobSet], optIn: Always}", want: func(a *ReprieveArgs) bool { return len(a.Groups.Kinds) == 2 && *a.Groups.OptIn == OptInAlways }},
		"no kinds for groups":     {yaml: "", want: func(a *ReprieveArgs) bool { return len(a.Groups.Kinds) == 0 && *a.Groups.OptIn == OptInAnnotated }},
		"a kind without a rule":   {yaml: "groups: {kinds: [Job, Deployment]}", wantErr: `groups.kinds[1]: Unsupported value: "Deployment"`},
		"a kind twice":            {yaml: "groups: {kinds: [Job, Job]}", wantErr: `groups.kinds[1]: Duplicate value: "Job"`},
		"another way to opt in":   {yaml: "groups: {optIn: Never}", wantErr: `groups.optIn: Unsupported value: "Never"`},
		"a rule": {
			yaml: "groups: {rules: [{apiVersion: a.b/v1, kind: C, resource: cs, roles: [{name: d, replicas: spec.e}]}]}",
			want: func(a *ReprieveArgs) bool { return a.Groups.Rules[0].Roles[0].Replicas == "spec.e" },
		},
		"two rules for one kind": {
			yaml:    "groups: {rules: [{apiVersion: a.b/v1, kind: C, resource: cs, roles: [{name: d, replicas: e}]}, {apiVersion: a.b/v2, kind: C, resource: cs, roles: [{name: d, replicas: e}]}]}",
			wantErr: `groups.rules[1].kind: Invalid value: "C": rules[0] is for C.a.b already`,
		},
		"a rule of no version": {
			yaml:    "groups: {rules: [{apiVersion: a.b/, kind: C, resource: cs, roles: [{name: d, replicas: e}]}]}",
			wantErr: `groups.rules[0].apiVersion: Invalid value: "a.b/": must be GROUP/VERSION`,
		},
		"a rule without roles": {yaml: "groups: {rules: [{apiVersion: a.b/v1, kind: C, resource: cs}]}", wantErr: "groups.rules[0].roles: Required value"},
		"a rule with a path that is none": {
			yaml:    "groups: {rules: [{apiVersion: a.b/v1, kind: C, resource: cs, roles: [{name: d, replicas: '.spec..e'}]}]}",
			wantErr: `groups.rules[0].roles[0].replicas: Invalid value: ".spec..e"`,
		},
		"roles that nothing tells apart": {
			yaml:    "groups: {rules: [{apiVersion: a.b/v1, kind: C, resource: cs, roles: [{name: d, replicas: e}, {name: f, replicas: g}]}]}",
			wantErr: "groups.rules[0].roleLabel: Required value",
		},
		"room that is kept for too long": {yaml: "gang: {healTimeout: 2h}", wantErr: `gang.healTimeout: Invalid value: "2h0m0s": must be between 0s and 1h0m0s`},
		"drivers without a bound":        {yaml: "drivers: {withoutWorkers: -1}", wantErr: `drivers.withoutWorkers: Invalid value: -1: must be between 0 and 10000`},
		"drivers that count for no time": {yaml: "drivers: {createTimeout: 0s}", wantErr: `drivers.createTimeout: Invalid value: "0s": must be between 1s and 24h0m0s`},
		"drivers that count for ever":    {yaml: "drivers: {workersTimeout: 25h}", wantErr: `drivers.workersTimeout: Invalid value: "25h0m0s": must be between 1s and 24h0m0s`},
		"a role that leads in the gang": {
			yaml:    "groups: {rules: [{apiVersion: a.b/v1, kind: C, resource: cs, roles: [{name: d, replicas: spec.d, leads: true}]}]}",
			wantErr: `groups.rules[0].roles[0].leads: Invalid value: true: requires alone: true`,
		},
		"a gang that is stale too late":  {yaml: "gang: {staleTimeout: 25h}", wantErr: `gang.staleTimeout: Invalid value: "25h0m0s": must be between 0s and 24h0m0s`},
		"a negative duration":            {yaml: "gang: {settleTime: -1s}", wantErr: `gang.settleTime: Invalid value: "-1s": must be between 0s and 1m0s`},
		"no time to terminate":           {yaml: "terminationTimeout: 0s", wantErr: `terminationTimeout: Invalid value: "0s": must be between 1s and 24h0m0s`},
		"a grace period of nothing":      {yaml: "maxGracePeriod: 0s", wantErr: `maxGracePeriod: Invalid value: "0s": must be between 1s and 99999h0m0s`},
		"a negative grace period":        {yaml: "maxGracePeriod: -1h", wantErr: `maxGracePeriod: Invalid value: "-1h0m0s"`},
		"a deleted queue for ever":       {yaml: "queues: {deletedTimeout: 25h}", wantErr: `queues.deletedTimeout: Invalid value: "25h0m0s": must be between 0s and 24h0m0s`},
		"the default grace period":       {yaml: "", want: func(a *ReprieveArgs) bool { return a.MaxGracePeriod.Duration == time.Hour }},
		"a timeout that is too long":     {yaml: "gang: {permitTimeout: 16m}", wantErr: `gang.permitTimeout: Invalid value: "16m0s": must be between 1s and 15m0s`},
		"a timeout that is too short":    {yaml: "gang: {permitTimeout: 1ms}", wantErr: `gang.permitTimeout: Invalid value: "1ms"`},
		"a longest that is the shortest": {yaml: "retry: {initialBackoff: 1m}", wantErr: `retry.maxBackoff: Invalid value: "30s": must not be less than initialBackoff, 1m0s`},
		"a longest binding backoff":      {yaml: "retry: {initialBindingBackoff: 50m}", wantErr: `retry.maxBindingBackoff: Invalid value: "30m0s": must not be less than initialBindingBackoff, 50m0s`},
		"too many crashes":               {yaml: "retry: {crashLimit: 101}", wantErr: "retry.crashLimit: Invalid value: 101: must be between 0 and 100"},
		"three crashes":                  {yaml: "", want: func(a *ReprieveArgs) bool { return *a.Retry.CrashLimit == 3 }},
		"no limit of crashes":            {yaml: "retry: {crashLimit: 0}", want: func(a *ReprieveArgs) bool { return *a.Retry.CrashLimit == 0 }},
		"a number out of range":          {yaml: "search: {packingMembers: 65}", wantErr: "search.packingMembers: Invalid value: 65: must be between 0 and 64"},
		"queues": {
			yaml: "{queueLabelKey: team.example/queue, preemptMinRuntime: 5m, reclaimMinRuntime: 15m, reclaimResolveMethod: Queue}",
			want: func(a *ReprieveArgs) bool {
				return *a.QueueLabelKey == "team.example/queue" && a.PreemptMinRuntime.Duration == 5*time.Minute &&
					a.ReclaimMinRuntime.Duration == 15*time.Minute && *a.ReclaimResolveMethod == ResolveQueue
			},
		},
		"a key that is no label's":       {yaml: "queueLabelKey: 'my queue'", wantErr: `queueLabelKey: Invalid value: "my queue"`},
		"a negative min-runtime":         {yaml: "reclaimMinRuntime: -1s", wantErr: `reclaimMinRuntime: Invalid value: "-1s"`},
		"a min-runtime beyond a queue's": {yaml: "preemptMinRuntime: 100000h", wantErr: `preemptMinRuntime: Invalid value: "100000h0m0s"`},
		"an unknown method":              {yaml: "reclaimResolveMethod: Leaf", wantErr: `reclaimResolveMethod: Unsupported value: "Leaf"`},
		"a number beyond int32":          {yaml: "search: {packingSteps: 99999999999}", wantErr: "packingSteps"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Decode(&runtime.Unknown{Raw: []byte(c.yaml)})
			if c.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantErr) || strings.Contains(err.Error(), "\n") {
					t.Errorf("error %q, want one line with %q", err, c.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !c.want(got) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestDecodeOtherForms(t *testing.T) {
	t.Parallel()
	if got, err := Decode(nil); err != nil || !*got.Asynchronous {
		t.Errorf("%+v, %v for no arguments; want the defaults", got, err)
	}
	given := &ReprieveArgs{Gang: GangArgs{SettleTime: &metav1.Duration{Duration: time.Second}}}
	if got, err := Decode(given); err != nil || got.Gang.SettleTime.Duration != time.Second || given.WorkloadAware != nil {
		t.Errorf("%+v, %v; want the given value, and the given arguments as they were", got, err)
	}
	if _, err := Decode(&runtime.Unknown{Raw: []byte("[1]")}); err == nil {
		t.Error("no error for a list")
	}
}
