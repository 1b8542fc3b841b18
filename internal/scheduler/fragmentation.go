package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/scoring"
)

var (
	_ fwk.PreScorePlugin  = (*Plugin)(nil)
	_ fwk.ScorePlugin     = (*Plugin)(nil)
	_ fwk.ScoreExtensions = (*Plugin)(nil)
)

// scoredKey is the key of the pod's request in the state of a cycle.
const scoredKey fwk.StateKey = Name + "/scored"

// scored holds the request of a cycle's pod, as [scoring.Scorer] uses it. It never changes.
type scored struct{ request []int64 }

// Clone is part of fwk.StateData.
func (s *scored) Clone() fwk.StateData { return s }

// PreScore computes the request of the cycle's pod for Score. It skips Score if the profile does
// not use the criterion of fragmentation.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if p.scorer == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	state.Write(scoredKey, &scored{request: p.scorer.Request(pod)})
	return nil
}

// Score returns the decrease of a node's fragmentation if the pod is placed there. It is negative
// for an increase, and 0 if the profile does not use the criterion. Score also works in a profile
// without PreScore.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	if p.scorer == nil {
		return 0, nil
	}
	var request []int64
	data, err := state.Read(scoredKey)
	if s, ok := data.(*scored); ok && err == nil {
		request = s.request
	} else {
		request = p.scorer.Request(pod)
	}
	return p.scorer.Score(node, request), nil
}

// ScoreExtensions returns the plugin itself, which implements NormalizeScore.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore scales the scores to the framework's range; see [scoring.Normalize].
func (*Plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	scoring.Normalize(scores)
	return nil
}
