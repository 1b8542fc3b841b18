package native

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// These conditions store data in the status of PodGroups of scheduling.k8s.io. They replace fields
// that only the status of reprieve.dev has.
const (
	// ConditionStarted replaces status.startTime: it is True while the group has a start time, and
	// its lastTransitionTime is that time.
	ConditionStarted = v1alpha1.GroupName + "/Started"
	// ConditionDisruption replaces status.disruption. Its message is the disruption as JSON. If the
	// text is too long for one message, it continues in conditions with numbered types, from
	// ConditionDisruption + "-2" on.
	ConditionDisruption = v1alpha1.GroupName + "/Disruption"
	// ConditionLastDisruption replaces status.lastDisruption. Its message is the last disruption as
	// JSON.
	ConditionLastDisruption = v1alpha1.GroupName + "/LastDisruption"
	// ConditionMembersScheduled replaces status.scheduled. It is True while members have a node and
	// are not terminating. Until it is False, the admission policy podgroup-deletion rejects the
	// deletion of the group.
	ConditionMembersScheduled = v1alpha1.GroupName + "/MembersScheduled"

	reasonStarted    = "MembersRunning"
	reasonDisruption = v1alpha1.ReasonPreemptionByScheduler
	reasonOnNodes    = "MembersOnNodes"
	reasonNoMembers  = "NoMembersOnNodes"
)

// SetMembersScheduled sets ConditionMembersScheduled. scheduled is the number of members that have
// a node and are not terminating. A group that never had such a member gets no condition. The
// condition does not contain the number, so most changes of the number cause no write.
func SetMembersScheduled(st *v1alpha1.PodGroupStatus, scheduled int32, generation int64) {
	c := metav1.Condition{
		Type: ConditionMembersScheduled, Status: metav1.ConditionTrue, Reason: reasonOnNodes,
		Message: "members have a node and do not terminate", ObservedGeneration: generation,
	}
	if scheduled == 0 {
		if meta.FindStatusCondition(st.Conditions, ConditionMembersScheduled) == nil {
			return
		}
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reasonNoMembers, "no member has a node, or all members on nodes terminate"
	}
	meta.SetStatusCondition(&st.Conditions, c)
}

const (
	// firstVersion is the only version of the API whose PodGroups have the condition
	// PodGroupScheduled.
	firstVersion = "v1alpha2"
	// conditionInitially is the condition that replaces PodGroupScheduled since Kubernetes 1.37. It
	// stays True once it was True.
	conditionInitially = "PodGroupInitiallyScheduled"
)

// setInitially adds conditionInitially, with the status of PodGroupScheduled. It changes nothing if
// the condition is already True.
func setInitially(conditions *[]metav1.Condition) {
	now := meta.FindStatusCondition(*conditions, v1alpha1.ConditionPodGroupScheduled)
	if now == nil || meta.IsStatusConditionTrue(*conditions, conditionInitially) {
		return
	}
	initially := *now
	initially.Type = conditionInitially
	meta.SetStatusCondition(conditions, initially)
}

// longestMessage is the maximum length of a condition's message, in bytes.
const longestMessage = 32768

// takeOwn moves the data in Reprieve's own conditions to the fields of the status that they
// replace.
func takeOwn(st *v1alpha1.PodGroupStatus) {
	parts := make(map[string]string)
	st.Conditions = slices.DeleteFunc(st.Conditions, func(c metav1.Condition) bool {
		switch {
		case c.Type == ConditionStarted:
			if c.Status == metav1.ConditionTrue {
				start := c.LastTransitionTime
				st.StartTime = &start
			}
			return true
		case c.Type == ConditionLastDisruption:
			var last v1alpha1.LastDisruption
			if json.Unmarshal([]byte(c.Message), &last) == nil {
				st.LastDisruption = &last
			}
			return true
		case isPart(c.Type):
			parts[c.Type] = c.Message
			return true
		default:
			return false
		}
	})
	var text strings.Builder
	for i := range len(parts) {
		text.WriteString(parts[partName(i)])
	}
	var d v1alpha1.PodGroupDisruption
	if text.Len() == 0 || json.Unmarshal([]byte(text.String()), &d) != nil {
		return
	}
	st.Disruption = &d
}

// allConditions returns the conditions of a status, and the conditions that replace its other
// fields. It is the inverse of takeOwn.
func allConditions(st *v1alpha1.PodGroupStatus) ([]metav1.Condition, error) {
	out := slices.Clone(st.Conditions)
	if st.StartTime != nil {
		out = append(out, metav1.Condition{
			Type: ConditionStarted, Status: metav1.ConditionTrue, Reason: reasonStarted, LastTransitionTime: *st.StartTime,
			Message: "minCount members run together",
		})
	}
	if last := st.LastDisruption; last != nil {
		text, err := json.Marshal(last)
		if err != nil {
			return nil, fmt.Errorf("encode the last disruption: %w", err)
		}
		out = append(out, metav1.Condition{
			Type: ConditionLastDisruption, Status: metav1.ConditionTrue, Reason: reasonDisruption, LastTransitionTime: last.Time, Message: string(text),
		})
	}
	if st.Disruption == nil {
		return out, nil
	}
	text, err := json.Marshal(st.Disruption)
	if err != nil {
		return nil, fmt.Errorf("encode the disruption: %w", err)
	}
	for i := 0; len(text) > 0; i++ {
		n := cut(text)
		out = append(out, metav1.Condition{
			Type: partName(i), Status: metav1.ConditionTrue, Reason: reasonDisruption,
			LastTransitionTime: st.Disruption.Time, Message: string(text[:n]),
		})
		text = text[n:]
	}
	return out, nil
}

// cut returns the number of bytes of a text that fit into one message. It does not split a UTF-8
// character.
func cut(text []byte) int {
	if len(text) <= longestMessage {
		return len(text)
	}
	n := longestMessage
	for text[n]&0xC0 == 0x80 {
		n--
	}
	return n
}

func partName(i int) string {
	if i == 0 {
		return ConditionDisruption
	}
	return fmt.Sprintf("%s-%d", ConditionDisruption, i+1)
}

func isPart(conditionType string) bool {
	return conditionType == ConditionDisruption || strings.HasPrefix(conditionType, ConditionDisruption+"-")
}
