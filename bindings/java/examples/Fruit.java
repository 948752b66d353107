import io.github.braidb.BraidDb;
import io.github.braidb.BraidException;
import io.github.braidb.Cursor;
import io.github.braidb.Durability;
import io.github.braidb.Family;
import io.github.braidb.Range;
import io.github.braidb.WriteBatch;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/** A shop that sells fruit: its colours, its stock, and sales that take several fruits at once. The argument is a directory. */
public final class Fruit {
    private Fruit() {}

    public static void main(String[] arguments) {
        try (BraidDb db = BraidDb.open(Path.of(arguments[0]))) {
            db.put(utf8("plum"), utf8("blue"));
            db.put(utf8("pear"), utf8("green"));
            db.put(utf8("apple"), utf8("red"));
            try (Cursor cursor = db.cursor(Range.prefix(utf8("p")))) {
                while (cursor.next()) {
                    System.out.println(text(cursor.key()) + " is " + text(cursor.value()));
                }
            }

            Family stock = db.family("stock");
            WriteBatch delivery = new WriteBatch();
            delivery.put(stock, utf8("plum"), utf8("30")).put(stock, utf8("pear"), utf8("12"));
            db.write(delivery, Durability.SYNC);

            // A sale of another thread in between would begin this one again.
            int left = db.transact(sale -> {
                int plums = Integer.parseInt(text(sale.get(stock, utf8("plum")))) - 4;
                sale.put(stock, utf8("plum"), utf8(Integer.toString(plums)));
                return plums;
            });
            System.out.println(left + " plums are left");
        } catch (BraidException error) {
            System.err.println(error.code() + ": " + error.getMessage());
            System.exit(1);
        }
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] utf8) {
        return new String(utf8, StandardCharsets.UTF_8);
    }
}
