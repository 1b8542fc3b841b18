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

// Seal is the record of the facts that apply to a pod as long as it has a node, such as its queue
// and priority. The scheduler makes it when it reserves the node, and stores it in the annotation
// [v1alpha1.AnnotationPlacedAs] with the binding. A later change of a label, of the PodGroup or of
// the namespace does not affect the pod.
//
// Where the admission policies are not installed, a user can forge the annotation. So a seal never
// gives a pod more than its labels could. The rules of queues apply to the queue in it, and its
// role is one of the group's roles. The priority, minCount, disruption mode and clock in it count
// only if they protect the pod less than the current ones.
type Seal struct {
	// Group is the PodGroup that the pod named; "" for none. It is the first field in the
	// annotation: [GroupOf] reads only the beginning.
	Group string `json:"group"`
	// Queue is the leaf queue of the pod; "" for none.
	Queue string `json:"queue,omitempty"`
	// Priority is the effective priority of the pod. Class is the PriorityClass that it came from;
	// "" for none.
	Priority int32  `json:"priority"`
	Class    string `json:"class,omitempty"`
	// MinCount is the minCount of the group; 0 for a pod that is in no gang. Whole is true if the
	// group's disruption mode is PodGroup, and was so when each member got its node.
	MinCount int  `json:"minCount,omitempty"`
	Whole    bool `json:"whole,omitempty"`
	// Role is the role of the pod in a group that was derived from its object; "" for none.
	Role string `json:"role,omitempty"`
	// Since is the start of the guaranteed times of the group's run; nil if it was not known.
	Since *metav1.Time `json:"since,omitempty"`
}

const (
	// sealStart is the beginning of every seal, followed by the name of the group.
	sealStart = `{"group":"`
	// queueField precedes the queue in a seal that has one. It follows the name of the group.
	queueField = `,"queue":"`
	// roleField precedes the role in a seal that has one.
	roleField = `,"role":"`
)

// Text returns the value of the annotation.
func (s *Seal) Text() (string, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("encode the seal of a pod: %w", err)
	}
	return string(text), nil
}

// ParseSeal reads the value of the annotation; false for a value that is no seal.
func ParseSeal(text string) (s Seal, ok bool) {
	if !strings.HasPrefix(text, sealStart) {
		return Seal{}, false
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return Seal{}, false
	}
	return s, true
}

// SealText returns the annotation with the seal of a pod; "" for a pod without one. Only a pod that
// the API server reports as scheduled has a seal. Before that, users can write the annotation, also
// in the copy of an assumed pod, which names a node.
func SealText(pod *corev1.Pod) string {
	text := pod.Annotations[v1alpha1.AnnotationPlacedAs]
	if text == "" || pod.Spec.NodeName == "" || preemptiontoleration.ScheduledAt(pod).IsZero() {
		return ""
	}
	return text
}

// SealOf returns the seal of a pod; false for a pod without one.
func SealOf(pod *corev1.Pod) (Seal, bool) { return ParseSeal(SealText(pod)) }

// QueueInSeal returns the queue in the seal of a pod; "" for none.
func QueueInSeal(pod *corev1.Pod) string { return SealedQueue(SealText(pod)) }

// SealedQueue returns the queue in a seal; "" for none. It reads only the beginning of the text.
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

// RoleInSeal returns the role in the seal of a pod; "" for none. It reads no other field.
func RoleInSeal(pod *corev1.Pod) string {
	text := SealText(pod)
	if !strings.HasPrefix(text, sealStart) {
		return ""
	}
	_, rest, _ := strings.Cut(text, roleField)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}

// sealedGroup returns the group in a seal, and the text after its name. It is false for a text that
// is no seal.
func sealedGroup(text string) (name, rest string, ok bool) {
	if name, ok = strings.CutPrefix(text, sealStart); !ok {
		return "", "", false
	}
	return strings.Cut(name, `"`)
}

// labeled returns the group that a pod names by its label; "" for none. A pod with a node names the
// group in its seal.
func labeled(pod *corev1.Pod) string {
	if name, _, ok := sealedGroup(SealText(pod)); ok {
		return name
	}
	return pod.Labels[v1alpha1.LabelPodGroup]
}
