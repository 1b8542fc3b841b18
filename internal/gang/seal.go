package gang

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

// Seal records the facts that count for a pod as long as it has a node, such as its queue and
// priority. The scheduler makes the seal when it reserves the node. It stores the seal in the
// annotation [v1alpha1.AnnotationPlacedAs] when it binds the pod. Later changes of labels, of the
// PodGroup or of the namespace do not affect the pod.
//
// A user can forge the annotation if the admission policies are not installed. So a seal never
// gives a pod more than labels can:
//
//   - The queue in the seal is checked like a queue that a label names; see Ledger.Claim in
//     internal/queue.
//   - The role in the seal must be one of the group's roles.
//   - The priority, minCount, disruption mode and start in the seal count only if they protect the
//     pod less than the current ones.
type Seal struct {
	// Group is the PodGroup that the pod named; "" for none. It must be the first field of the JSON
	// text, because [GroupOf] reads only the beginning of the text.
	Group string `json:"group"`
	// Queue is the leaf queue of the pod; "" for none.
	Queue string `json:"queue,omitempty"`
	// Priority is the effective priority of the pod.
	Priority int32 `json:"priority"`
	// Class is the PriorityClass that Priority came from; "" for none.
	Class string `json:"class,omitempty"`
	// MinCount is the minCount of the group; 0 for a pod that is in no gang.
	MinCount int `json:"minCount,omitempty"`
	// Whole is true if the disruption mode PodGroup applies now and also applied each time that a
	// member got a node.
	Whole bool `json:"whole,omitempty"`
	// Never is true if the disruption mode Never applied to the pod's PodGroup.
	Never bool `json:"never,omitempty"`
	// Role is the role of the pod in its derived group; "" for none. See [Derived].
	Role string `json:"role,omitempty"`
	// Since is the start of the group's guaranteed times, such as min-runtime; nil if it was not
	// known.
	Since *metav1.Time `json:"since,omitempty"`
}

const (
	// sealStart is the beginning of every seal. The name of the group follows.
	sealStart = `{"group":"`
	// queueField comes directly after the name of the group in a seal with a queue. The name of the
	// queue comes next.
	queueField = `,"queue":"`
	// roleField comes before the role in a seal with a role.
	roleField = `,"role":"`
)

// Text returns the seal as the value of its annotation.
func (s *Seal) Text() (string, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("encode the seal of a pod: %w", err)
	}
	return string(text), nil
}

// ParseSeal reads a seal from the value of its annotation; false if the value is not a seal.
func ParseSeal(text string) (s Seal, ok bool) {
	if !strings.HasPrefix(text, sealStart) {
		return Seal{}, false
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return Seal{}, false
	}
	return s, true
}

// SealText returns the value of the annotation with a pod's seal; "" if the annotation does not
// count. Users can write the annotation until the API server reports the pod as scheduled, so it
// counts only from then on. An assumed pod has a node name too, but its annotation may come from a
// user.
func SealText(pod *corev1.Pod) string {
	text := pod.Annotations[v1alpha1.AnnotationPlacedAs]
	if text == "" || pod.Spec.NodeName == "" || preemptiontoleration.ScheduledAt(pod).IsZero() {
		return ""
	}
	return text
}

// SealOf returns the seal of a pod; false for a pod without a seal.
func SealOf(pod *corev1.Pod) (Seal, bool) { return ParseSeal(SealText(pod)) }

// QueueInSeal returns the queue in the seal of a pod; "" without a seal or a queue.
func QueueInSeal(pod *corev1.Pod) string { return SealedQueue(SealText(pod)) }

// SealedQueue returns the queue in the text of a seal; "" for none. It does not parse the rest of
// the text.
func SealedQueue(text string) string {
	_, rest, ok := sealedGroup(text)
	if !ok {
		return ""
	}
	name, _ := strings.CutPrefix(rest, queueField)
	if len(name) == len(rest) {
		return ""
	}
	name, _, _ = strings.Cut(name, `"`)
	return name
}

// RoleInSeal returns the role in the seal of a pod; "" for none. It does not parse the other
// fields.
func RoleInSeal(pod *corev1.Pod) string {
	text := SealText(pod)
	if !strings.HasPrefix(text, sealStart) {
		return ""
	}
	_, rest, _ := strings.Cut(text, roleField)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}

// sealedGroup returns the group in the text of a seal, and the text after the name of the group. It
// returns false if the text is not a seal.
func sealedGroup(text string) (name, rest string, ok bool) {
	if name, ok = strings.CutPrefix(text, sealStart); !ok {
		return "", "", false
	}
	return strings.Cut(name, `"`)
}

// labeled returns the group in the seal of a pod or, without a seal, in the label of the pod; ""
// for none.
func labeled(pod *corev1.Pod) string {
	if name, _, ok := sealedGroup(SealText(pod)); ok {
		return name
	}
	return pod.Labels[v1alpha1.LabelPodGroup]
}
