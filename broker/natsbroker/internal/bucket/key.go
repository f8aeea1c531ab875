package bucket

import (
	"strconv"
	"strings"
)

// Token is a name as one token of a subject: a dot parts tokens, and no name has an equals sign.
func Token(name string) string { return strings.ReplaceAll(name, ".", "=") }

// OwnerKey is where the owner of a group lies.
func OwnerKey(group string) string { return "owner." + Token(group) }

// MemberKey is where the presence of a member lies; of the member "" it is what those of all begin with.
func MemberKey(group, member string) string { return "member." + Token(group) + "." + member }

// PartitionKey is where the row of a partition lies.
func PartitionKey(group, stream string, partition int) string {
	return "partition." + Token(group) + "." + stream + "." + strconv.Itoa(partition)
}

// PartitionsOf is the filter for the rows of a group.
func PartitionsOf(group string) string { return "partition." + Token(group) + ".>" }

// TopicOf is the topic of a row, by its key.
func TopicOf(key string) string { return strings.ReplaceAll(strings.Split(key, ".")[2], "=", ".") }
